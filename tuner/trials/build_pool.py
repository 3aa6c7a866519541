"""A pool of build processes that start once, live through the run, and are killed one by one."""

from __future__ import annotations

import errno
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any

from tunebook.cache.errors import TunebookError
from tunebook.cache.records import ErrorClass
from tunebook.tuner.child_process import (
    START_SECONDS,
    ChildCannotStart,
    ChildDiedError,
    ChildProcess,
    ChildReady,
)
from tunebook.tuner.trials.trials import (
    BuildFailure,
    BuildJob,
    BuildRequest,
    BuiltLibrary,
    CannotBuild,
)

_MODULE = "tunebook.tuner.trials.build_process"
# A child that dies while it starts is replaced this often before the pool gives up.
_FAILED_STARTS = 3
_NO_SPACE = os.strerror(errno.ENOSPC)
_KILLED = "was ended by SIGKILL"
_CLOSED = "the build pool was closed before this was built"

BuildFuture = Future[BuiltLibrary | BuildFailure]


@dataclass
class _Task:
    job: BuildJob
    future: BuildFuture
    killed: bool = False


class _Builder:
    """One process: starting until `ready`, then idle or busy with `task` until `deadline`."""

    def __init__(self, folder: Path) -> None:
        self.child = ChildProcess(_MODULE, folder)
        self.ready = False
        self.task: _Task | None = None
        self.began = time.monotonic()
        self.deadline: float | None = self.began + START_SECONDS

    def begin(self, task: _Task, time_limit: float) -> None:
        self.task = task
        self.began = time.monotonic()
        self.deadline = self.began + time_limit
        self.child.forget_output()
        self.child.send(task.job)

    def take_task(self) -> _Task | None:
        """The process is idle again, or gone."""
        task, self.task, self.deadline = self.task, None, None
        return task


class BuildPool:
    """Builds libraries in `workers` processes (`size`), each build within `time_limit` seconds.

    Libraries are written into `folder`, which is made if need be; they are the caller's to remove.
    A build that takes too long is a `compile-timeout`, one that ends its process a `build` failure
    with the end of that process's stderr; in both cases another process takes its place.
    """

    def __init__(self, workers: int, time_limit: float, folder: Path) -> None:
        if workers < 1:
            raise ValueError(f"a pool needs at least one build process, not {workers}")
        self.size = workers
        self._time_limit = time_limit
        self.folder = folder.absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._prefix = uuid.uuid4().hex[:8]
        self._built = 0
        self._lock = threading.Lock()
        self._waiting: deque[_Task] = deque()
        self._closing = False
        self._failed_starts = 0
        self._broken: str | None = None
        self._woken, self._wake = Pipe(duplex=False)
        self._builders = [_Builder(self.folder) for _ in range(workers)]
        self._dispatcher = threading.Thread(
            target=self._dispatch, name="build-dispatcher", daemon=True
        )
        self._dispatcher.start()

    def submit(self, request: BuildRequest) -> BuildFuture:
        """The future library.

        Its `result()` raises TunebookError when no process can start, and when it is this machine
        that cannot build, since no linker works or there is no space.
        """
        future: BuildFuture = Future()
        with self._lock:
            if self._closing:
                raise TunebookError("the build pool is closed; open another one")
            path = self.folder / f"{self._prefix}-{self._built}.so"
            self._built += 1
            self._waiting.append(_Task(BuildJob(request, path), future))
        self._wake_dispatcher()
        return future

    def close(self) -> None:
        """Kills every process; what is not built yet is cancelled. May be called twice."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
        self._wake_dispatcher()
        self._dispatcher.join()
        self._wake.close()
        self._woken.close()

    def __enter__(self) -> BuildPool:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    @property
    def process_ids(self) -> tuple[int, ...]:
        """The build processes of this moment."""
        return tuple(builder.child.pid for builder in list(self._builders))

    # --- the dispatcher's thread ---------------------------------------------------------------

    def _dispatch(self) -> None:
        try:
            while not self._closing:
                self._hand_out()
                self._answer_ready(self._wait())
                self._stop_overdue()
        finally:
            self._closing = True
            self._end()

    def _wait(self) -> Iterable[Any]:
        deadlines = [b.deadline for b in self._builders if b.deadline is not None]
        timeout = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
        connections: list[Connection[Any, Any]] = [b.child.connection for b in self._builders]
        return wait([self._woken, *connections], timeout)

    def _hand_out(self) -> None:
        if self._broken is not None:
            self._refuse_waiting(self._broken)
        for builder in list(self._builders):
            while builder.ready and builder.task is None and (task := self._next()) is not None:
                try:
                    builder.begin(task, self._time_limit)
                except ChildDiedError:
                    # It died idle, so the next process gets the job.
                    self._waiting.appendleft(task)
                    builder.task = None
                    self._replace(builder)
                    break

    def _next(self) -> _Task | None:
        with self._lock:
            while self._waiting:
                task = self._waiting.popleft()
                if task.future.running() or task.future.set_running_or_notify_cancel():
                    return task
            return None

    def _answer_ready(self, ready: Iterable[Any]) -> None:
        for connection in ready:
            if connection is self._woken:
                self._woken.recv_bytes()
                continue
            for builder in list(self._builders):
                if builder.child.connection is connection:
                    self._answer(builder)

    def _answer(self, builder: _Builder) -> None:
        try:
            message = builder.child.receive()
        except ChildDiedError as died:
            self._died(builder, str(died))
            return
        if isinstance(message, ChildReady):
            builder.ready, builder.deadline = True, None
            self._failed_starts = 0
        elif isinstance(message, ChildCannotStart):
            self._break(message.text)
        else:
            task = builder.take_task()
            if task is None:
                return
            if isinstance(message, CannotBuild):
                task.job.path.unlink(missing_ok=True)
                _fail(task, message.text)
            else:
                _finish(task, message)

    def _died(self, builder: _Builder, text: str) -> None:
        task = builder.take_task()
        if task is not None and _NO_SPACE in text:  # LLVM aborts where it cannot write
            _fail(task, f"nothing can be built in {self.folder}: {_NO_SPACE}; make space there")
        elif task is not None and _KILLED in text and not task.killed:
            # From outside, most likely for want of memory: it says nothing of the candidate.
            task.killed = True
            self._waiting.appendleft(task)
        elif task is not None:
            self._give_up(task, builder, ErrorClass.BUILD, f"the compiler crashed: {text}")
        elif not builder.ready:
            self._start_failed(text)
        self._replace(builder)

    def _stop_overdue(self) -> None:
        now = time.monotonic()
        for builder in list(self._builders):
            if builder.deadline is None or now < builder.deadline:
                continue
            task = builder.take_task()
            if task is not None:
                text = f"building took longer than {self._time_limit:g} s and was stopped"
                self._give_up(task, builder, ErrorClass.COMPILE_TIMEOUT, text)
            else:
                self._start_failed(f"it did not start within {START_SECONDS:g} s")
            self._replace(builder)

    def _give_up(self, task: _Task, builder: _Builder, error: ErrorClass, text: str) -> None:
        builder.child.kill()
        task.job.path.unlink(missing_ok=True)
        _finish(task, BuildFailure(error, text, time.monotonic() - builder.began))

    def _start_failed(self, text: str) -> None:
        self._failed_starts += 1
        if self._failed_starts >= _FAILED_STARTS:
            self._break(f"build processes do not start: {text}")

    def _break(self, text: str) -> None:
        self._broken = text

    def _refuse_waiting(self, text: str) -> None:
        with self._lock:
            refused, self._waiting = self._waiting, deque()
        for task in refused:
            _fail(task, text)

    def _replace(self, builder: _Builder) -> None:
        builder.child.close()
        self._builders.remove(builder)
        if self._broken is None and not self._closing:
            self._builders.append(_Builder(self.folder))

    def _wake_dispatcher(self) -> None:
        with suppress(OSError):
            self._wake.send_bytes(b"!")

    def _end(self) -> None:
        for builder in self._builders:
            builder.child.close()
            task = builder.take_task()
            if task is not None:
                task.job.path.unlink(missing_ok=True)
                _fail(task, _CLOSED)
        self._refuse_waiting(_CLOSED)


def _finish(task: _Task, outcome: BuiltLibrary | BuildFailure) -> None:
    with suppress(InvalidStateError):
        task.future.set_result(outcome)


def _fail(task: _Task, text: str) -> None:
    with suppress(InvalidStateError):
        task.future.set_exception(TunebookError(text))
