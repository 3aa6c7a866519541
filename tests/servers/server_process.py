"""A server that tests start, kill, stop and bring back, as a user without rights."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

PATIENCE = 60.0


def unprivileged_user(preferred: str) -> str | None:
    """Who runs a server where the tests are run by root, whom PostgreSQL refuses; else None."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return preferred if preferred in names else "nobody"


class ServerProcess:
    """A server in a folder of its own. `ask` raises while the server does not answer."""

    def __init__(self, name: str, user: str | None) -> None:
        # A unix socket's path is short: pytest's own folders are not.
        self.folder = Path(tempfile.mkdtemp(prefix=f"tb-{name}-"))
        self.user = user
        self._process: subprocess.Popen[bytes] | None = None
        if user is not None:
            shutil.chown(self.folder, user)

    @property
    def log(self) -> str:
        """What it has told so far."""
        return (self.folder / "log").read_text()

    @property
    def pid(self) -> int:
        """Its process, while it runs."""
        assert self._process is not None
        return self._process.pid

    def launch(self, command: Sequence[str | Path], ask: Callable[[], object]) -> None:
        """Starts it, and waits until it answers."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, user=self.user, cwd=self.folder
            )
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                ask()
                return
            except Exception:  # each driver has its own
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(self.log) from None
                time.sleep(0.02)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Ends it at once, and waits until it is gone."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.send_signal(signal.SIGCONT)
            self._process.wait(timeout=PATIENCE)
            self._process = None

    def pause(self) -> None:
        """Stops it where it is: connections stay, and nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Lets it go on after a pause."""
        os.kill(self.pid, signal.SIGCONT)

    def remove(self) -> None:
        """Ends it, and leaves nothing of it."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
