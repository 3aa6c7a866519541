"""What a tracker had a moment ago, for several threads that want to know it often."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tunebook.cache.errors import BoardError
from tunebook.tuner.trials.board_tracker import BoardsThere, boards_there
from tunebook.tuner.trials.trials import BoardAddress

_NOTHING = BoardsThere((), 0)


class TrackerLook:
    """Looks which boards of a class are there, every so many seconds at most."""

    def __init__(
        self, address: BoardAddress, seconds: float, monotonic: Callable[[], float]
    ) -> None:
        self._address = address
        self._seconds = seconds
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._looked_at: float | None = None
        self._there = _NOTHING

    @property
    def there(self) -> BoardsThere:
        """The boards; none where the tracker does not answer."""
        with self._lock:
            now = self._monotonic()
            if self._looked_at is None or now - self._looked_at >= self._seconds:
                try:
                    self._there = boards_there(self._address)
                except BoardError:
                    self._there = _NOTHING
                self._looked_at = self._monotonic()
            return self._there
