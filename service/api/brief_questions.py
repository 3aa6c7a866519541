"""Questions that are given up where nobody answers them soon."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, move_on_after, to_thread

T = TypeVar("T")

_THREADS = 8
# Beyond what Redis is given to answer: a name server may hang too.
_PATIENCE_SECONDS = 1.0


class BriefQuestions:
    """Asks in threads of its own, so that nothing else stands in line behind what may hang. For one
    event loop."""

    def __init__(self) -> None:
        self._limiter: CapacityLimiter | None = None

    async def ask(self, question: Callable[[], T]) -> T | None:
        """What a question gives, or None after a second; its thread is left to end by itself."""
        if self._limiter is None:
            self._limiter = CapacityLimiter(_THREADS)
        with move_on_after(_PATIENCE_SECONDS):
            return await to_thread.run_sync(question, limiter=self._limiter, abandon_on_cancel=True)
        return None
