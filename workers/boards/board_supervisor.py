"""Keeps a board at its tracker: starts its server, watches its registration, starts it anew.

A server is judged by what the tracker says, not by whether its process exists: a process that
lives and is not registered, or whose beat does not move, serves nobody.
"""

from __future__ import annotations

import logging
import os
import secrets
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tunebook.cache.errors import BoardError
from tunebook.workers.boards.child_processes import log_tail, start_child, stop_child
from tunebook.workers.boards.tracker import TrackerAddress, query_tracker

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServerCommand:
    """How to start a board server: everything before the server's own options."""

    command: Sequence[str]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class SupervisionLimits:
    """Seconds: for a server to appear at the tracker, for its beat to stand still, between looks
    until it appeared and after, and of the first and longest pause before it is started anew."""

    appear: float = 30.0
    silence: float = 15.0
    look: float = 0.1
    # Each look is work beside whatever is measured on this machine.
    watch: float = 1.0
    first_pause: float = 0.2
    longest_pause: float = 30.0


# A server that fails this often without ever appearing is not started again by `start`.
ATTEMPTS_AT_START = 3


class BoardSupervisor:
    """A board of `board_class` at `tracker`, kept there from entering to leaving the context."""

    def __init__(
        self,
        server: ServerCommand,
        tracker: TrackerAddress,
        board_class: str,
        *,
        name: str | None = None,
        host: str = "127.0.0.1",
        limits: SupervisionLimits | None = None,
    ) -> None:
        self._server = server
        self._tracker = tracker
        self._board_class = board_class
        self._name = name
        self._host = host
        self._limits = limits or SupervisionLimits()
        self._stopping = threading.Event()
        self._appeared = threading.Event()
        self._gave_up = threading.Event()
        self._tracker_lost = False
        self._thread = threading.Thread(target=self._keep, name="board-supervisor", daemon=True)
        self._folder = tempfile.TemporaryDirectory(prefix="tunebook-board-")
        self._log = Path(self._folder.name, "server.log")

    def __enter__(self) -> BoardSupervisor:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Return when the board is registered; BoardError when that does not come to pass."""
        try:
            query_tracker(self._tracker)
            self._thread.start()
            self._wait_until_appeared()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the server and its sessions."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._folder.cleanup()

    def _wait_until_appeared(self) -> None:
        deadline = time.monotonic() + self._limits.appear
        while not self._appeared.wait(self._limits.look):
            if self._gave_up.is_set() or time.monotonic() > deadline:
                raise BoardError(
                    f"no board of class {self._board_class!r} came up at the tracker "
                    f"{self._tracker}; the log of its server ends: {log_tail(self._log)}"
                )

    def _keep(self) -> None:
        pause = self._limits.first_pause
        attempts = 0
        while not self._stopping.is_set():
            if self._run_server():
                pause, attempts = self._limits.first_pause, 0
            else:
                attempts += 1
            if attempts >= ATTEMPTS_AT_START and not self._appeared.is_set():
                self._gave_up.set()
                return
            if self._stopping.wait(pause):
                return
            _log.warning("board %s: starting its server again", self._board_class, extra=self._told)
            pause = min(pause * 2, self._limits.longest_pause)

    def _run_server(self) -> bool:
        """Run one server until it has to be replaced; whether it ever appeared at the tracker."""
        server_id = secrets.token_hex(8)
        try:
            process = self._start_server(server_id)
        except OSError as error:
            self._note(f"the server cannot be started: {error}")
            return False
        try:
            return self._watch(process, server_id)
        finally:
            stop_child(process)

    def _start_server(self, server_id: str) -> subprocess.Popen[bytes]:
        options = [
            f"--tracker={self._tracker}",
            f"--key={self._board_class}",
            f"--host={self._host}",
            f"--work-folder={self._folder.name}",
            f"--server-id={server_id}",
            f"--parent-pid={os.getpid()}",
        ]
        if self._name is not None:
            options.append(f"--name={self._name}")
        return start_child(
            [*self._server.command, *options],
            folder=Path(self._folder.name),
            log=self._log,
            environment=self._server.environment,
        )

    def _watch(self, process: subprocess.Popen[bytes], server_id: str) -> bool:
        last_beat = 0
        moved_at = time.monotonic()
        while not self._stopping.wait(self._limits.watch if last_beat else self._limits.look):
            if process.poll() is not None:
                self._note(f"the server ended with exit code {process.returncode}")
                break
            beat = self._beat_of(server_id)
            now = time.monotonic()
            if beat is None or beat != last_beat:
                # Where the tracker does not answer, nothing speaks against the server.
                moved_at = now
            elif now - moved_at > (self._limits.silence if last_beat else self._limits.appear):
                self._note("the server lives but its beat at the tracker stands still")
                break
            if beat:
                last_beat = beat
                self._appeared.set()
        return last_beat > 0

    def _beat_of(self, server_id: str) -> int | None:
        """The server's beat, 0 when it is not registered, None when the tracker cannot say."""
        try:
            boards = query_tracker(self._tracker).boards
        except BoardError as error:
            # Each look would say it again.
            if not self._tracker_lost:
                _log.warning("%s", error, extra=self._told)
            self._tracker_lost = True
            return None
        self._tracker_lost = False
        return next((board.beat for board in boards if board.server_id == server_id), 0)

    @property
    def _told(self) -> dict[str, object]:
        """What a log says of it."""
        return {"board_class": self._board_class, "tracker": str(self._tracker)}

    def _note(self, text: str) -> None:
        _log.warning("board %s: %s", self._board_class, text, extra=self._told)
        with self._log.open("a") as log:
            log.write(f"{text}\n")
