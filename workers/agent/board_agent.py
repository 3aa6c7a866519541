"""The agent of a board: keeps its server at the tracker, and tells the coordinator how it is."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from tunebook.cache.board_names import quarantine_class
from tunebook.cache.boards.board_reports import BoardOrders
from tunebook.workers.agent.board_readings import BoardReadings
from tunebook.workers.agent.coordinator_reports import CoordinatorReports
from tunebook.workers.agent.governor import GovernorKeeper
from tunebook.workers.boards.board_supervisor import (
    BoardSupervisor,
    ServerCommand,
    SupervisionLimits,
)
from tunebook.workers.boards.tracker import TrackerAddress

_log = logging.getLogger(__name__)

# A coordinator that has not answered by then may have put this board into quarantine, or not.
_FIRST_ANSWER_SECONDS = 5.0
# Between two reports, however much happens.
_SHORTEST_PAUSE = 1.0


@dataclass(frozen=True)
class AgentSettings:
    """A board as its agent is told to keep it; see BoardSupervisor for `host` to `run_as`."""

    board_class: str
    name: str
    tracker: TrackerAddress
    host: str = "127.0.0.1"
    port: int = 0
    advertise: str | None = None
    run_as: str | None = None
    limits: SupervisionLimits | None = None


class BoardAgent:
    """Keeps a board and reports it, from `run` until its `stop` is set.

    The board never waits for the coordinator: reports are made by a thread of their own, and
    without `reports` by none. In quarantine the board is registered under its class's other key
    (`quarantine_class`), from the end of the session in hand on, and goes back once that is lifted.
    """

    def __init__(
        self,
        settings: AgentSettings,
        server: ServerCommand,
        readings: BoardReadings,
        governor: GovernorKeeper,
        reports: CoordinatorReports | None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises ValueError for a user to run the server as that there is not."""
        self._settings = settings
        self._readings = readings
        self._governor = governor
        self._reports = reports
        self._monotonic = monotonic
        self._due = threading.Event()
        self._answered = threading.Event()
        self._supervisor = BoardSupervisor(
            server,
            settings.tracker,
            settings.board_class,
            name=settings.name,
            host=settings.host,
            port=settings.port,
            advertise=settings.advertise,
            run_as=settings.run_as,
            limits=settings.limits,
            changed=self._due.set,
        )

    def run(self, stop: threading.Event) -> None:
        """Keeps the board until `stop` is set, and ends its server and sessions then."""
        # Whatever a report waits for must not hold up the end.
        threading.Thread(target=self._report_on, args=(stop,), name="reports", daemon=True).start()
        deadline = self._monotonic() + _FIRST_ANSWER_SECONDS
        while not stop.is_set() and self._monotonic() < deadline:
            if self._answered.wait(0.05):
                break
        told = {"board_class": self._settings.board_class, "board": self._settings.name}
        _log.info("keeping the board", extra={**told, "tracker": str(self._settings.tracker)})
        self._supervisor.begin()
        stop.wait()
        self._supervisor.stop()
        _log.info("left", extra=told)

    def _report_on(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self._due.clear()
            try:
                self._governor.keep()
                orders = self._send()
                self._obey(orders)
            except Exception:  # whatever the board's files say, it has to be told of again
                _log.exception("not reported")
                orders = BoardOrders()
            self._answered.set()
            if stop.wait(_SHORTEST_PAUSE):
                return
            self._due.wait(max(0.0, orders.report_seconds - _SHORTEST_PAUSE))

    def _send(self) -> BoardOrders:
        if self._reports is None:
            return BoardOrders()
        readings = self._readings.report(self._settings.tracker, self._supervisor.standing)
        return self._reports.send(readings)

    def _obey(self, orders: BoardOrders) -> None:
        own = self._settings.board_class
        self._supervisor.register_as(quarantine_class(own) if orders.quarantine else own)
