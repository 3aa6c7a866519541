"""The reference kernel of a board in hand: measured where it is due, so that no board is used that
drifted."""

from __future__ import annotations

import logging
import math
import threading
from concurrent.futures import CancelledError
from dataclasses import dataclass

from tunebook.cache.board_names import own_class
from tunebook.cache.errors import TunebookError
from tunebook.cache.records import Measurement
from tunebook.cache.store import Store
from tunebook.tuner.trials.build_pool import BuildFuture
from tunebook.tuner.trials.measuring import Measurer
from tunebook.tuner.trials.reference_kernel import build_reference, measure_reference
from tunebook.tuner.trials.trials import OpenedBoard
from tunebook.workers.fleet.shared_builds import SharedBuilds

_log = logging.getLogger(__name__)

# A measurement that speaks against where the board stands, and the one that settles it.
_MOST_IN_A_ROW = 2


@dataclass(frozen=True)
class ReferenceTimes:
    """How many seconds old a board's last reference measurement may be: of one that is used, and of
    one in quarantine, which waits to come back."""

    every: float = 15 * 60.0
    in_quarantine: float = 5 * 60.0

    @classmethod
    def every_seconds(cls, seconds: float) -> ReferenceTimes:
        """A board in quarantine is looked at three times as often."""
        return cls(seconds, seconds / 3)

    def of(self, quarantine: str) -> float:
        """What holds for a board with this reason to be in quarantine, or none."""
        return self.in_quarantine if quarantine else self.every


class ReferenceChecks:
    """Measures the reference kernels of boards on which a session was opened; thread-safe.

    A board that tells no triple, as with TVM's own server, is measured where its class has one by
    default, and else never judged.
    """

    def __init__(
        self, store: Store, builds: SharedBuilds, times: ReferenceTimes | None = None
    ) -> None:
        self._store = store
        self._builds = builds
        self.times = times or ReferenceTimes()
        self._lock = threading.Lock()
        self._kernels: dict[str, BuildFuture] = {}

    def why_not(self, board: OpenedBoard, measurer: Measurer) -> str | None:
        """Why a board is not to be used now, None where it is: it is in quarantine, and did not
        measure well again just now. Raises DatabaseError."""
        quarantine = self.look_after(board, measurer)
        return f"it is in quarantine: {quarantine}" if quarantine else None

    def is_due(self, board_class: str, name: str) -> bool:
        """Whether a board's reference is to be measured now, under whichever key it stands at the
        tracker. Raises DatabaseError."""
        boards, own = self._store.boards, own_class(board_class)
        return boards.reference_due(own, name, self.times.of(boards.quarantine(own, name)))

    def look_after(self, board: OpenedBoard, measurer: Measurer) -> str:
        """Measures a board's reference where it is due, and again where that speaks against where
        the board stands; gives why it is in quarantine now (empty: it is not). Raises
        DatabaseError."""
        boards, board_class = self._store.boards, own_class(board.board_class)
        quarantine = boards.quarantine(board_class, board.name)
        seconds = self.times.of(quarantine)
        for _ in range(_MOST_IN_A_ROW):
            if not boards.reference_due(board_class, board.name, seconds):
                break
            measured = self._measure(board, measurer)
            if measured is None:
                break
            quarantine = boards.note_reference(
                board_class, board.name, measured.run_seconds, measured.board_state
            )
            # From here on only what is in doubt is due.
            seconds = math.inf
        return quarantine

    def _measure(self, board: OpenedBoard, measurer: Measurer) -> Measurement | None:
        """None where it could not be measured, which says nothing about the board's times."""
        told = {"board": board.name, "board_class": own_class(board.board_class)}
        kernel = self._kernel(board)
        if kernel is None:
            return None
        try:
            measured = measure_reference(measurer, kernel)
        except (TunebookError, CancelledError) as error:
            _log.warning("no reference was measured: %s", error, extra=told)
            return None
        if measured.error is not None:
            text = f"{measured.error.value}: {measured.error_text}"
            _log.warning("no reference was measured: %s", text, extra=told)
            return None
        milliseconds = 1e3 * (measured.seconds or 0.0)
        _log.info("a reference was measured", extra={**told, "milliseconds": milliseconds})
        return measured

    def _kernel(self, board: OpenedBoard) -> BuildFuture | None:
        mtriple = board.mtriple
        if not mtriple:
            defaults = self._store.boards.defaults(own_class(board.board_class))
            mtriple = "" if defaults is None else defaults.mtriple
        if not mtriple:
            return None
        with self._lock:
            if mtriple not in self._kernels:
                try:
                    self._kernels[mtriple] = build_reference(self._builds.pool(), mtriple)
                except RuntimeError:  # the worker is leaving
                    return None
                except TunebookError as error:
                    _log.warning("no reference can be built for %s: %s", mtriple, error)
                    return None
            return self._kernels[mtriple]
