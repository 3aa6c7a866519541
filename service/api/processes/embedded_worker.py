"""The workers that the coordinator starts itself: child processes, watched and started again."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tunebook.service.mending import DATABASE_VARIABLE, REDIS_VARIABLE

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RestartPauses:
    """Seconds: the first pause before a worker that ended is started again, the longest, how long
    one must have lived for the first pause to be enough, and for one that is stopped to leave."""

    first: float = 1.0
    longest: float = 60.0
    lived: float = 120.0
    leaving: float = 8.0


class EmbeddedWorkers:
    """So many `tunebook worker` on the coordinator's database and models.

    Each runs in a process group of its own, so that Ctrl-C reaches it through `stop` alone, and
    leaves when the coordinator is gone, however it ended: its standard input ends then.
    """

    def __init__(
        self,
        count: int,
        *,
        db: str | None,
        models: str | None,
        redis: str | None = None,
        boards: Sequence[str] = (),
        tracker: str | None = None,
        pauses: RestartPauses | None = None,
    ) -> None:
        options = [("--models", models), ("--tracker", tracker)]
        options += [("--boards", one) for one in boards]
        command = [
            *(sys.executable, "-m", "tunebook.service.cli", "worker", "--until-input-ends"),
            *(word for name, value in options if value for word in (name, value)),
        ]
        # Addresses may hold passwords, which a command line shows to everybody.
        addresses = {DATABASE_VARIABLE: db, REDIS_VARIABLE: redis}
        environment = {**os.environ, **{name: url for name, url in addresses.items() if url}}
        limits = pauses or RestartPauses()
        self._workers = [
            EmbeddedWorker(number, command, environment, limits) for number in range(1, count + 1)
        ]

    def start(self) -> None:
        """Starts them."""
        for worker in self._workers:
            worker.start()

    def stop(self) -> None:
        """Ends them, within seconds; what they hold goes back, and what they measured is stored.
        Again it does nothing."""
        for worker in self._workers:
            worker.ask_to_leave()
        for worker in self._workers:
            worker.wait()

    def fault(self) -> str | None:
        """Why one of them does not work, in a line; None where all do."""
        return next((fault for one in self._workers if (fault := one.fault)), None)

    @property
    def process_ids(self) -> tuple[int, ...]:
        """Those that run now."""
        return tuple(pid for one in self._workers if (pid := one.pid) is not None)


class EmbeddedWorker:
    """One worker process, kept running between `start` and `ask_to_leave`."""

    def __init__(
        self,
        number: int,
        command: Sequence[str],
        environment: Mapping[str, str],
        pauses: RestartPauses,
    ) -> None:
        self._number = number
        self._command = command
        self._environment = environment
        self._pauses = pauses
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._keep, name=f"worker-{number}", daemon=True)
        self._fault: str | None = "it was not started yet"

    @property
    def fault(self) -> str | None:
        """Why it does not run; None where it does."""
        return None if self._fault is None else f"worker {self._number}: {self._fault}"

    @property
    def pid(self) -> int | None:
        """Its process, while it runs."""
        process = self._process
        return None if process is None or process.returncode is not None else process.pid

    def start(self) -> None:
        """Starts it, and whoever follows it."""
        self._thread.start()

    def ask_to_leave(self) -> None:
        """Asks it to give back what it holds, and does not start it again."""
        self._stopping.set()
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                self._process.terminate()

    def wait(self) -> None:
        """Waits until it left; what does not leave is killed."""
        with self._lock:
            process = self._process
        if process is not None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(self._pauses.leaving)
            _kill_group(process)
        if self._thread.is_alive():
            self._thread.join()

    def _keep(self) -> None:
        pause = self._pauses.first
        while not self._stopping.is_set():
            began = time.monotonic()
            ending = self._run()
            if self._stopping.is_set():
                return
            if time.monotonic() - began >= self._pauses.lived:
                pause = self._pauses.first
            self._fault = f"{ending}; it is started again in {pause:g} s; its log says why"
            _log.warning("a worker ended", extra={"worker": self._number, "ending": self._fault})
            self._stopping.wait(pause)
            pause = min(2 * pause, self._pauses.longest)

    def _run(self) -> str:
        """Runs the worker until it ends; gives how it did."""
        try:
            with self._lock:
                if self._stopping.is_set():
                    return "it was stopped"
                process = self._process = self._start()
        except OSError as error:
            return f"it cannot be started: {error}"
        self._fault = None
        _log.info("a worker was started", extra={"worker": self._number, "pid": process.pid})
        code = process.wait()
        # Whatever it started and did not end itself.
        _kill_group(process)
        if process.stdin is not None:
            process.stdin.close()
        return f"it was ended by signal {-code}" if code < 0 else f"it ended with exit code {code}"

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command,
            # Held open: its end tells the worker that the coordinator is gone.
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=dict(self._environment),
            start_new_session=True,
        )


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
