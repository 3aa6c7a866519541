"""What tests of agents share: a board that an agent keeps, and the coordinator that it tells."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tunebook.cache.access.tokens import Role
from tunebook.cache.boards.board_reports import BoardOrders, BoardReport, BoardState
from tunebook.cache.boards.drift import FEWEST_RUNS
from tunebook.cache.boards.registrations import RegisteredBoard
from tunebook.cache.remote.client import Client
from tunebook.cache.remote.retries import Retries
from tunebook.cache.store import Store
from tunebook.workers.agent.coordinator_reports import CoordinatorReports
from tunebook.workers.boards.board_supervisor import SupervisionLimits
from tunebook.workers.boards.tracker import TrackerAddress, query_tracker

CLASS, NAME = "lab", "bench-3"
# A busy machine may hold up a server that is well for seconds: it must not be replaced for that.
QUICK = SupervisionLimits(appear=60, silence=60, watch=0.1, first_pause=0.05, longest_pause=0.5)
# For servers that hang.
IMPATIENT = replace(QUICK, silence=3)
_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class KeptBoard:
    """A board that an agent keeps; `end` stops the agent, and returns when it has left."""

    tracker: TrackerAddress
    end: Callable[[], None]

    def find(self, key: str = CLASS) -> RegisteredBoard | None:
        """The board under a key at the tracker, None while it is not there."""
        boards = query_tracker(self.tracker, _PATIENCE_SECONDS).boards_of(key)
        return boards[0] if boards else None

    def find_other_than(self, server: int | None) -> RegisteredBoard | None:
        """The board under its class, None while a process of the number `server` serves it."""
        found = self.find()
        return None if found is None or found.pid == server else found

    @property
    def registered(self) -> RegisteredBoard:
        """The board under its class at the tracker, where it is known to be."""
        found = self.find()
        assert found is not None
        return found


class HurriedReports(CoordinatorReports):
    """Makes reports as often as an agent can, whatever the coordinator asks for."""

    def send(self, report: BoardReport) -> BoardOrders:
        return replace(super().send(report), report_seconds=1.0)


class Coordinator:
    """A real `tunebook serve`, which can be killed and started again at the same port."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._port = 0
        self._database = str(home / "tunebook.db")
        self.start()
        self.store = Store.open(self._database)
        board = f"{CLASS}/{NAME}"
        self._secret = self.store.tokens.create("bench-3", Role.BOARD, board=board).secret

    def start(self) -> None:
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tunebook.service.cli", "serve", "--workers", "0"),
                *("--port", str(self._port), "--db", self._database),
            ],
            env={**os.environ, "HOME": str(self._home), "XDG_DATA_HOME": str(self._home / "data")},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self._url = self._process.stdout.readline().split()[-1]
        self._port = int(self._url.rpartition(":")[2])

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def close(self) -> None:
        self.store.close()
        self.kill()

    def reports(self, token: str | None = None) -> CoordinatorReports:
        """What an agent reports with."""
        secret = token or self._secret
        return HurriedReports(
            CLASS, NAME, lambda: Client(self._url, secret, retries=Retries(patience=0.0))
        )

    def board(self) -> BoardState:
        """The board as the coordinator knows it."""
        found = self.store.boards.board(CLASS, NAME)
        assert found is not None
        return found

    def report(self) -> BoardReport:
        """What was reported last; an empty report before."""
        found = self.store.boards.board(CLASS, NAME)
        return found.report if found and found.report else BoardReport()

    def knows(self, tracker: TrackerAddress) -> bool:
        """Whether the board was reported as registered at a tracker."""
        report = self.report()
        return report.registered and report.tracker == str(tracker)

    def knows_quarantine(self) -> bool:
        """Whether the agent has reported since its board is in quarantine, and so was told."""
        board = self.board()
        assert board.quarantined_at is not None
        return board.reported_at is not None and board.reported_at > board.quarantined_at

    def quarantine(self) -> None:
        """The board's reference measures well for a while, and then twice the time."""
        for seconds in (*[1e-3] * FEWEST_RUNS, 2e-3, 2e-3):
            self.store.boards.note_reference(CLASS, NAME, [seconds], {})
        assert self.board().quarantine

    def lift(self) -> None:
        """The reference measures well again."""
        for _ in range(2):
            self.store.boards.note_reference(CLASS, NAME, [1e-3], {})
        assert not self.board().quarantine
