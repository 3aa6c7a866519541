"""Hit rates in memory, for as long as reading them anew would cost too much."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from tunebook.cache.statistics.lookup_counts import HitRate, Window
from tunebook.cache.statistics.lookup_statistics import LookupStatistics

# At most one part in so many of the time goes into reading.
_PATIENCE = 20


@dataclass(frozen=True)
class _Remembered:
    rates: tuple[HitRate, ...]
    until: float


class RememberedRates:
    """The hit rates of every window, however many look at them.

    To sum up a month of many pipelines' minutes takes seconds, a day milliseconds: what was read is
    shown for twenty times as long as reading it took. Safe to share between threads, of which one
    reads; where something was read before, the others get that meanwhile.
    """

    def __init__(
        self, statistics: LookupStatistics, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._statistics = statistics
        self._monotonic = monotonic
        self._locks = {window: threading.Lock() for window in Window}
        self._remembered: dict[Window, _Remembered] = {}

    def of(self, window: Window, now: datetime) -> tuple[HitRate, ...]:
        """As LookupStatistics.hit_rates, or as it was a little ago."""
        lock, known = self._locks[window], self._remembered.get(window)
        if not lock.acquire(blocking=known is None):
            assert known is not None
            return known.rates
        try:
            return self._read(window, now)
        finally:
            lock.release()

    def _read(self, window: Window, now: datetime) -> tuple[HitRate, ...]:
        started = self._monotonic()
        known = self._remembered.get(window)
        if known is not None and started < known.until:
            return known.rates
        rates = self._statistics.hit_rates(window, now)
        ended = self._monotonic()
        self._remembered[window] = _Remembered(rates, ended + _PATIENCE * (ended - started))
        return rates
