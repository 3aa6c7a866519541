"""The boards of a pool as one target wants them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import TypeVar

from tunebook.cache.errors import TunebookError
from tunebook.cache.records import Measurement
from tunebook.cache.work import BoardPeak
from tunebook.tuner.splitting.program import Program
from tunebook.tuner.trials.board_pool import BoardPool
from tunebook.tuner.trials.measuring import Measurer
from tunebook.tuner.trials.trial_queue import TrialSetting
from tunebook.tuner.trials.trials import BuiltLibrary, VerificationResult

T = TypeVar("T")


def _always() -> bool:
    return True


class TargetBoards:
    """What measures for a workbench: trials for one target, on whichever board of a pool is free.

    Kernels get `num_cores` threads, and boards whose CPU has these `features`. Times beyond `peak`
    are `implausible`; it may be set later, since it takes boards to measure it.
    """

    def __init__(
        self, pool: BoardPool, num_cores: int, features: frozenset[str] = frozenset()
    ) -> None:
        self.pool = pool
        self.peak: BoardPeak | None = None
        self._num_cores = num_cores
        self._features = features

    def submit(
        self,
        carry_out: Callable[[Measurer], T],
        *,
        wanted: Callable[[], bool] = _always,
        urgent: bool = False,
    ) -> Future[T]:
        """What `carry_out` will give on a board. It is called in another thread, and once more
        where the board was lost; not at all, and the future cancelled, where it is not `wanted` any
        more by its turn. `result()` raises BoardError when no board can be had."""
        setting = TrialSetting(self._num_cores, self._features, self.peak)
        return self.pool.submit(setting, carry_out, wanted=wanted, urgent=urgent)

    def measure(
        self, library: BuiltLibrary, program: Program, *, best_seconds: float | None = None
    ) -> Measurement:
        """See Measurer.measure."""
        return result_of(
            self.submit(lambda board: board.measure(library, program, best_seconds=best_seconds))
        )

    def verify(
        self, candidate: BuiltLibrary, reference: BuiltLibrary, program: Program
    ) -> VerificationResult:
        """See Measurer.verify; before trials that wait."""
        return result_of(
            self.submit(lambda board: board.verify(candidate, reference, program), urgent=True)
        )


def result_of(future: Future[T]) -> T:
    """What a trial gave, once it has. Raises TunebookError where the boards were closed."""
    try:
        return future.result()
    except CancelledError as error:
        raise TunebookError("the measuring was closed meanwhile") from error
