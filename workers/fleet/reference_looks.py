"""Looks at boards that nobody uses: their references are measured too, so that one that drifted is
found before it is needed, and one in quarantine comes back."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from tunebook.cache.board_names import quarantine_class
from tunebook.cache.errors import DatabaseError, TunebookError
from tunebook.cache.store import Store
from tunebook.tuner.trials.board_tracker import boards_there
from tunebook.tuner.trials.measuring import Measurer
from tunebook.tuner.trials.trials import BoardAddress, OpenedBoard
from tunebook.workers.boards.board_classes import BoardClass
from tunebook.workers.boards.quiet_machine import QuietMachine
from tunebook.workers.fleet.reference_checks import ReferenceChecks

_log = logging.getLogger(__name__)

# How often it is looked which boards are due, class by class, and no less often than any can be.
_LOOK_SECONDS = 20.0
# A board that is free answers at once.
_BOARD_SECONDS = 5.0


class ReferenceLooks:
    """Looks at the boards of a worker's classes, one class at a time; thread-safe.

    Boards in quarantine are looked at whether the worker is idle or not, under the key at the
    tracker to which their agents move them, or under their own where they have none; the others
    while it is idle.
    """

    def __init__(
        self,
        store: Store,
        checks: ReferenceChecks,
        stop: threading.Event,
        *,
        run_timeout: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._checks = checks
        self._stop = stop
        self._run_timeout = run_timeout
        self._look_seconds = min(_LOOK_SECONDS, checks.times.in_quarantine)
        self._monotonic = monotonic
        self._looking = threading.Lock()
        self._next: dict[tuple[str, bool], float] = {}
        self._measurer: Measurer | None = None

    def end_at_once(self) -> None:
        """Ends what is measured now; the worker's stop is set before."""
        measurer = self._measurer
        if measurer is not None:
            measurer.close()

    def any_usable(self, board_class: BoardClass) -> bool:
        """Whether a board of a class is there that is not in quarantine. Raises DatabaseError."""
        there = {one.board for one in board_class.boards_there}
        return bool(there - self._store.boards.quarantined(board_class.name))

    def look(self, board_class: BoardClass, *, idle: bool) -> bool:
        """Measures the references of boards that are due; whether there were any. To be called
        where nothing is measured on this machine. Raises DatabaseError."""
        if not self._looking.acquire(blocking=False):
            return False  # another loop of the lane does
        try:
            now, kind = self._monotonic(), (board_class.name, idle)
            if now < self._next.get(kind, now):
                return False
            self._next[kind] = now + self._look_seconds
            return self._look(board_class, idle=idle)
        except DatabaseError:
            raise
        except TunebookError as error:  # no board, or the worker is leaving
            _log.info("no board is looked at: %s", error, extra={"board_class": board_class.name})
            return False
        finally:
            self._measurer = None
            self._looking.release()

    def _look(self, board_class: BoardClass, *, idle: bool) -> bool:
        name = board_class.name
        quarantined = self._store.boards.quarantined(name)
        if not (quarantined or board_class.is_open or not board_class.opens_boards):
            return False  # nobody needs to start a board for this
        address = board_class.reach()
        if address.emulated:
            return False
        visited = False
        if quarantined:
            visited = self._visit(replace(address, board_class=quarantine_class(name)), None)
        if idle or quarantined:
            visited = self._visit(address, None if idle else quarantined) or visited
        return visited

    def _visit(self, address: BoardAddress, only: frozenset[str] | None) -> bool:
        """Visits those free boards under a key that are due; of some only, where given. Whether
        any was looked at."""
        there = boards_there(address)
        due = {
            one.label
            for one in there.servers
            if not one.serving
            and (only is None or one.label in only)
            and self._checks.is_due(address.board_class, one.label)
        }
        before = len(due)
        if due and there.free:
            self._measure(address, due, there.free)
        return len(due) < before

    def _measure(self, address: BoardAddress, due: set[str], free: int) -> None:
        """The tracker offers free boards in turn, and none by its name: so all of them are asked
        for, until the last that is due was among them."""

        def look_after(board: OpenedBoard, measurer: Measurer) -> None:
            self._checks.look_after(board, measurer)
            due.discard(board.name)

        with (
            QuietMachine(measures_here=address.shares_host) as machine,
            machine.measuring_if_quiet() as quiet,
            Measurer(
                address,
                num_cores=1,
                board_timeout=_BOARD_SECONDS,
                run_timeout=self._run_timeout,
                check=look_after,
            ) as measurer,
        ):
            self._measurer = measurer
            for _ in range(free):
                if not (quiet and due) or self._stop.is_set():
                    return
                measurer.hold_board()
                measurer.give_board_back()
