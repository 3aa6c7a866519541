"""The doorbell: whoever makes work rings it, and idle workers wait for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

# How long an idle worker waits at most before it looks for itself: where all that makes work is
# heard here, and where it is not.
SHARED_SECONDS = 5.0
ALONE_SECONDS = 1.0
# A worker that finds nothing looks no more often than this, however often it rings.
LEAST_SECONDS = 0.1
# So soon the end of a worker is noticed by those that wait.
_STOP_SECONDS = 0.25


def _nothing() -> None:
    """Where nobody counts whom it woke."""


class Bell:
    """A bell for the threads of this process.

    `is_shared` says whether news of other processes ring it too; `woke` is called when it woke
    somebody.
    """

    def __init__(
        self,
        is_shared: Callable[[], bool] = bool,
        woke: Callable[[], None] = _nothing,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_shared = is_shared
        self._woke = woke
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._rings = 0
        self._thread = threading.local()

    @property
    def look_seconds(self) -> float:
        """How long to wait for it before looking for work all the same."""
        return SHARED_SECONDS if self._is_shared() else ALONE_SECONDS

    def ring(self) -> None:
        """Says that there is work: wakes the threads of this process."""
        with self._changed:
            self._rings += 1
            self._changed.notify_all()

    def wait(self, seconds: float, stop: threading.Event) -> bool:
        """Waits for a ring for so many seconds at most, or until `stop` is set; gives whether it
        rang. Rings since this thread waited last count: whoever looks for work and then waits
        misses none."""
        heard = getattr(self._thread, "heard", 0)
        until = self._monotonic() + seconds
        with self._changed:
            while self._rings == heard:
                left = until - self._monotonic()
                if left <= 0 or stop.is_set():
                    return False
                self._changed.wait(min(left, _STOP_SECONDS))
        self._pause(stop)
        self._thread.heard = self._rings
        self._woke()
        return True

    def _pause(self, stop: threading.Event) -> None:
        now = self._monotonic()
        again_at = getattr(self._thread, "again_at", now)
        if again_at > now:
            stop.wait(again_at - now)
        self._thread.again_at = self._monotonic() + LEAST_SECONDS
