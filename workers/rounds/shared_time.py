"""The time that passes, shared out among those that work side by side."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class SharedTime:
    """Each moment counts for all that work then, in equal shares; thread-safe."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._working = 0
        self._counted_until = 0.0
        self._share = 0.0  # of one that has worked since the beginning

    @contextmanager
    def working(self) -> Iterator[Callable[[], float]]:
        """Works for as long as the block lasts; what it gives tells the seconds of it so far."""
        began = self._count(1)
        try:
            yield lambda: self._count(0) - began
        finally:
            self._count(-1)

    def _count(self, more: int) -> float:
        with self._lock:
            now = self._monotonic()
            if self._working:
                self._share += (now - self._counted_until) / self._working
            self._counted_until = now
            self._working += more
            return self._share
