"""The time that a worker works for a budget: counted on its monotonic clock, and looked at."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType

from tunebook.cache.errors import DatabaseError
from tunebook.cache.queue.job_queue import JobQueue
from tunebook.workers.rounds.repeating import Repeating

_log = logging.getLogger(__name__)
_TICK_SECONDS = 1.0


class BudgetClock:
    """Counts seconds for a budget while its `with` block lasts, and says when the budget is over:
    in trials, seconds, board seconds, or by its deadline."""

    def __init__(
        self,
        queue: JobQueue,
        budget_id: int,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queue = queue
        self._budget_id = budget_id
        self._monotonic = monotonic
        self._over = threading.Event()
        self._ticks = Repeating("budget-clock", _TICK_SECONDS, self._tick)

    @property
    def over(self) -> bool:
        """Whether nothing more may be begun under this budget."""
        return self._over.is_set()

    def __enter__(self) -> BudgetClock:
        use = self._queue.budget(self._budget_id)
        self._used = use.used_seconds
        self._counted_until = self._monotonic()
        if use.over is not None:
            self._over.set()
        self._ticks.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ticks.stop()
        self._tick()

    def _tick(self) -> None:
        now = self._monotonic()
        try:
            self._used = self._queue.use_seconds(
                self._budget_id, self._used, now - self._counted_until
            )
            # What another worker counted meanwhile is the same time.
            self._counted_until = now
            if self._queue.budget(self._budget_id).over is not None:
                self._over.set()
        except DatabaseError as error:
            _log.warning("time was not counted: %s", error, extra={"budget": self._budget_id})
