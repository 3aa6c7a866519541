"""A step that is taken again and again in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Repeating:
    """Takes a step every `seconds` in a thread of its own, from `start` to `stop`, the first one
    after `seconds`. A step that is under way is waited for."""

    def __init__(self, name: str, seconds: float, step: Callable[[], None]) -> None:
        """`name` is the thread's."""
        self._seconds = seconds
        self._step = step
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _repeat(self) -> None:
        while not self._stop.wait(self._seconds):
            self._step()
