"""Where a run's time goes: searching, waiting for builds, measuring."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class PhaseTimes:
    """Seconds in each phase; where phases overlap they add up to more than the run."""

    search: float = 0.0
    build: float = 0.0
    measure: float = 0.0


class PhaseClock:
    """Adds up the phases of one run, also from several threads."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._seconds = {field.name: 0.0 for field in fields(PhaseTimes)}

    def now(self) -> float:
        """The monotonic clock that it goes by, in seconds."""
        return self._monotonic()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Counts the block's time for the phase `name`, a field of PhaseTimes."""
        started = self._monotonic()
        try:
            yield
        finally:
            with self._lock:
                self._seconds[name] += self._monotonic() - started

    @property
    def times(self) -> PhaseTimes:
        """The sums so far."""
        with self._lock:
            return PhaseTimes(**self._seconds)
