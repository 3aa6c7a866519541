"""Programs and traces that others wrote, loaded and replayed in processes that may die of them.

A program whose parts do not fit together ends the process that looks at it (TVM checks few fields
for null), one that is nested deeply enough its stack; a trace may not end. So none of that happens
in a process that is needed afterwards.
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import LifoQueue
from types import TracebackType

from tunebook.cache.errors import InterchangeError, TunebookError
from tunebook.cache.records import Workload
from tunebook.tuner.child_process import (
    ChildDiedError,
    ChildProcess,
    ChildTimeoutError,
)

_MODULE = "tunebook.tuner.interchange.loading_process"
# A large trace replays in a tenth of a second.
_TIME_LIMIT = 60.0
_MOST_PROCESSES = 4
# Enough to keep a process busy while the answers are looked at.
_AHEAD = 4


@dataclass(frozen=True)
class LoadProgram:
    """A program as TVM's JSON text, to be loaded and described."""

    text: str


@dataclass(frozen=True)
class ReplayTrace:
    """A trace to be replayed on a program; both are JSON texts."""

    tir: str
    trace: str


@dataclass(frozen=True)
class ShowScheduled:
    """A trace to be replayed on a program, both JSON texts, for a person to read what comes out."""

    tir: str
    trace: str


@dataclass(frozen=True)
class Replayed:
    """The hash of what the trace made of the program."""

    module_hash: str


@dataclass(frozen=True)
class Script:
    """A scheduled program as TVMScript."""

    text: str


@dataclass(frozen=True)
class Refused:
    """Why a program was not loaded or a trace not replayed, in one line; `untrusted` where it
    holds what is not on the lists, and so was not tried."""

    reason: str
    untrusted: bool = False


Message = LoadProgram | ReplayTrace | ShowScheduled
# A program that was loaded is the workload that it makes, with an op that was read off it.
Answer = Workload | Replayed | Script | Refused


class ForeignPrograms:
    """Loads and replays in as many processes as this machine has cores, at most four."""

    def __init__(self, processes: int | None = None) -> None:
        cores = len(os.sched_getaffinity(0))
        self._processes = processes or min(cores, _MOST_PROCESSES)
        self._folder = tempfile.TemporaryDirectory(prefix="tunebook-import-")
        # The one that was used last comes first, so that few messages start few processes.
        self._children: LifoQueue[ChildProcess | None] = LifoQueue()
        self._threads = ThreadPoolExecutor(self._processes, thread_name_prefix="foreign-programs")
        self._started: list[ChildProcess] = []
        for _ in range(self._processes):
            self._children.put(None)

    def __enter__(self) -> ForeignPrograms:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # What was interrupted need not come to its end.
        self._threads.shutdown(wait=False, cancel_futures=True)
        for child in self._started:
            child.kill()
        self._threads.shutdown()
        for child in self._started:
            child.close()
        self._folder.cleanup()

    def answers(self, messages: Iterable[Message]) -> Iterator[Answer]:
        """An answer to each message, in order; few messages are taken before they are needed.

        Raises InterchangeError where no process starts.
        """
        pending: deque[Future[Answer]] = deque()
        for message in messages:
            pending.append(self._threads.submit(self._ask, message))
            if len(pending) >= self._processes * _AHEAD:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()

    def _ask(self, message: Message) -> Answer:
        child = self._children.get()
        try:
            if child is None:
                child = self._start()
            child.forget_output()
            child.send(message)
            answer: Answer = child.receive(_TIME_LIMIT)
            return answer
        except (ChildDiedError, ChildTimeoutError) as error:
            if child is not None:
                child.kill()
                child = None
            return Refused(f"TVM did not survive it: {error}")
        finally:
            self._children.put(child)

    def _start(self) -> ChildProcess:
        child = ChildProcess(_MODULE, Path(self._folder.name))
        self._started.append(child)
        try:
            child.wait_until_ready()
        except TunebookError as error:
            raise InterchangeError(f"the process that loads programs: {error}") from error
        return child
