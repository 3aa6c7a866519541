"""Keeps a board at its tracker: starts its server, watches its registration, starts it anew.

A server is judged by what the tracker says, not by whether its process exists: a process that
lives and is not registered, or whose beat does not move, serves nobody.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from tunebook.cache.board_names import own_class
from tunebook.cache.boards.registrations import RegisteredBoard
from tunebook.cache.errors import BoardError
from tunebook.workers.boards.child_processes import log_tail, start_child, stop_child
from tunebook.workers.boards.server.exit_reasons import signal_name
from tunebook.workers.boards.server.rights import user_and_group
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
# A log that grew beyond this is begun anew.
_LONGEST_LOG = 4 * 2**20
# So much of a log's end says why a server ended.
_LONGEST_WORDS = 300


@dataclass(frozen=True)
class BoardStanding:
    """How a supervised board stands: what the tracker says of its server (None: it is not
    registered there), how often the server was started anew, and why the last time."""

    registered: RegisteredBoard | None = None
    restarts: int = 0
    fault: str = ""


@dataclass(frozen=True)
class _Ended:
    """How a server ended: whether it ever appeared at the tracker, and what was wrong with it,
    None where it left because it was asked to."""

    appeared: bool
    fault: str | None = None


class BoardSupervisor:
    """A board of `board_class` at `tracker`, kept there from `start` or `begin` to `stop`, or from
    entering to leaving the context, which starts it.

    `host` is the address or network interface to listen on, `advertise` the address that clients
    reach it under (None: that one), `run_as` the user whose rights it has (None: ours). `changed`
    is called, by another thread, when the board's standing is another.
    """

    def __init__(
        self,
        server: ServerCommand,
        tracker: TrackerAddress,
        board_class: str,
        *,
        name: str | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        advertise: str | None = None,
        run_as: str | None = None,
        limits: SupervisionLimits | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """Raises ValueError for a user that there is not, or that is root."""
        self._server = server
        self._tracker = tracker
        self._board_class = board_class
        self._name = name
        self._place = [f"--host={host}", f"--port={port}"]
        if advertise is not None:
            self._place.append(f"--advertise={advertise}")
        self._user = None if run_as is None else user_and_group(run_as)
        self._limits = limits or SupervisionLimits()
        self._changed = changed
        self._standing = BoardStanding()
        self._stopping = threading.Event()
        self._appeared = threading.Event()
        self._gives_up = False
        self._gave_up = threading.Event()
        self._tracker_lost = False
        self._has_namesake = False
        self._thread = threading.Thread(target=self._keep, name="board-supervisor", daemon=True)
        self._make_folders()

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
            self._gives_up = True
            self._thread.start()
            self._wait_until_appeared()
        except BaseException:
            self.stop()
            raise

    def begin(self) -> None:
        """Keep the board from now on and never give up, whatever is away; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """End the server and its sessions."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._folder.cleanup()

    def register_as(self, board_class: str) -> None:
        """Have the board in this class at the tracker from the end of the session in hand on."""
        self._board_class = board_class

    @property
    def standing(self) -> BoardStanding:
        """How the board stands now."""
        return self._standing

    def _make_folders(self) -> None:
        """A folder for the server and its log, and in it one where its sessions work: theirs alone
        where they have a user of their own."""
        self._folder = tempfile.TemporaryDirectory(prefix="tunebook-board-")
        self._log = Path(self._folder.name, "server.log")
        self._work = Path(self._folder.name, "sessions")
        self._work.mkdir(mode=0o700)
        if self._user is not None:
            try:
                os.chown(self._work, *self._user)
            except PermissionError:
                raise ValueError("only root can run a server as another user") from None
            Path(self._folder.name).chmod(0o711)

    def _remake_folders(self) -> None:
        """Makes other folders where one is gone: systems tidy up what lies in /tmp for days. Never
        under the old name, which others know."""
        if not self._work.is_dir():
            self._folder.cleanup()
            self._make_folders()

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
            ended = self._run_server()
            self._stand(registered=None)
            if ended.fault is None:
                continue
            self._note(ended.fault)
            if ended.appeared:
                pause, attempts = self._limits.first_pause, 0
            else:
                attempts += 1
            if self._gives_up and attempts >= ATTEMPTS_AT_START and not self._appeared.is_set():
                self._gave_up.set()
                return
            if self._stopping.wait(pause):
                return
            _log.warning("board %s: starting its server again", self._board_class, extra=self._told)
            self._stand(restarts=self._standing.restarts + 1)
            pause = min(pause * 2, self._limits.longest_pause)

    def _run_server(self) -> _Ended:
        """Run one server until it has to be replaced, or has left to come back in another class."""
        server_id = secrets.token_hex(8)
        board_class = self._board_class
        try:
            self._remake_folders()
            process = self._start_server(server_id, board_class)
        except OSError as error:
            return _Ended(False, f"the server cannot be started: {error}")
        try:
            return self._watch(process, server_id, board_class)
        finally:
            stop_child(process)

    def _start_server(self, server_id: str, board_class: str) -> subprocess.Popen[bytes]:
        options = [
            f"--tracker={self._tracker}",
            f"--key={board_class}",
            *self._place,
            f"--work-folder={self._work}",
            f"--server-id={server_id}",
            f"--parent-pid={os.getpid()}",
        ]
        if self._name is not None:
            options.append(f"--name={self._name}")
        if self._user is not None:
            # In numbers: an emulated server's system may know others by their names.
            options.append("--run-as={}:{}".format(*self._user))
        return start_child(
            [*self._server.command, *options],
            folder=Path(self._folder.name),
            log=self._log,
            environment=self._server.environment,
        )

    def _watch(self, process: subprocess.Popen[bytes], server_id: str, board_class: str) -> _Ended:
        seen: int | None = None
        appeared = leaving = False
        moved_at = time.monotonic()
        while not self._stopping.wait(self._limits.watch if appeared else self._limits.look):
            if self._board_class != board_class and not leaving:
                leaving = True
                process.send_signal(signal.SIGUSR1)
            if process.poll() is not None:
                return _Ended(appeared, None if leaving else self._why_ended(process.returncode))
            beat = self._beat_of(server_id)
            now = time.monotonic()
            # Where the tracker does not answer, nothing speaks against the server.
            if beat is None or (beat > 0 and beat != seen):
                moved_at = now
            elif now - moved_at > (self._limits.silence if appeared else self._limits.appear):
                return _Ended(appeared, "the server lives but its beat at the tracker stands still")
            seen = beat
            if beat:
                appeared = True
                self._appeared.set()
            self._shorten_log()
        return _Ended(appeared)

    def _beat_of(self, server_id: str) -> int | None:
        """The server's beat, 0 when it is not registered, None when the tracker cannot say."""
        try:
            boards = query_tracker(self._tracker).boards
        except BoardError as error:
            # Each look would say it again.
            if not self._tracker_lost:
                _log.warning("%s", error, extra=self._told)
            self._tracker_lost = True
            self._stand(registered=None)
            return None
        self._tracker_lost = False
        found = next((board for board in boards if board.server_id == server_id), None)
        self._stand(registered=found)
        if found is not None:
            self._look_for_namesake(found, boards)
        return found.beat if found else 0

    def _look_for_namesake(self, ours: RegisteredBoard, boards: Sequence[RegisteredBoard]) -> None:
        """Says in the log where another machine keeps a board of the same name, as one does that
        was copied from the same card: records and drift tell boards apart by their names."""
        other = next((board for board in boards if _is_namesake(board, ours)), None)
        if other is not None and not self._has_namesake:
            _log.warning(
                "another board at %s is called %s too, and records cannot tell them apart; give "
                "one of them another --name",
                other.host,
                ours.name,
                extra=self._told,
            )
        self._has_namesake = other is not None

    def _stand(self, **now: Any) -> None:
        before, self._standing = self._standing, replace(self._standing, **now)
        was, found = before.registered, self._standing.registered
        if found is not None and (was is None or was.server_id != found.server_id):
            told = {**self._told, "key": found.board_class, "board": found.name}
            _log.info("the board is registered", extra=told)
        same = (was is None) == (found is None) and before.restarts == self._standing.restarts
        if not same or before.fault != self._standing.fault:
            self._changed()

    def _why_ended(self, code: int) -> str:
        if code < 0:
            return f"the server was ended by {signal_name(-code)}"
        words = log_tail(self._log, 1)[-_LONGEST_WORDS:]
        return f"the server ended with exit code {code}: {words}"

    def _shorten_log(self) -> None:
        # The server appends to it, and goes on at its new end.
        with suppress(OSError):
            if self._log.stat().st_size > _LONGEST_LOG:
                os.truncate(self._log, 0)

    @property
    def _told(self) -> dict[str, object]:
        """What a log says of it."""
        return {"board_class": self._board_class, "tracker": str(self._tracker)}

    def _note(self, text: str) -> None:
        _log.warning("board %s: %s", self._board_class, text, extra=self._told)
        # A full disk keeps no log, and ends no board.
        with suppress(OSError), self._log.open("a") as log:
            log.write(f"{text}\n")
        self._stand(fault=text)


def _is_namesake(board: RegisteredBoard, ours: RegisteredBoard) -> bool:
    """Whether it is a board of another machine, of the same class and name. At the same address it
    may be this one before its last start, of which the tracker has not heard that it is gone."""
    named_alike = (board.name, own_class(board.board_class)) == (
        ours.name,
        own_class(ours.board_class),
    )
    elsewhere = bool(board.boot) and board.boot != ours.boot and board.host != ours.host
    return ours.name is not None and named_alike and elsewhere
