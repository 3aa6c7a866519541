"""The processes of a fleet: each is started by its command line, and again by the same."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

_PATIENCE = 60.0


@dataclass
class Part:
    """One process of the fleet, with a log that goes on when it is started again."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Starts it, as a service manager does that finds it gone."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        """`kill -9` of the process itself: what it has started has to notice by itself."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_PATIENCE)

    def stop(self) -> None:
        """Ends it as a service manager does."""
        if self._process is not None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_PATIENCE)
            self.kill()

    def pause(self) -> None:
        """Stops it and all that it has started, as when its whole machine stands still."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets it go on after a pause."""
        self._signal_all(signal.SIGCONT)

    def said(self) -> str:
        """Its log."""
        return self.log.read_text(errors="replace")

    def _signal_all(self, number: signal.Signals) -> None:
        for one in [psutil.Process(self.pid), *psutil.Process(self.pid).children(recursive=True)]:
            with suppress(psutil.NoSuchProcess, ProcessLookupError):
                os.kill(one.pid, number)


def end_tree(pid: int) -> None:
    """`kill -9` of a process and all that it has started."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for one in [process, *process.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                one.kill()
