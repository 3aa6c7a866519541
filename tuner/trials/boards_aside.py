"""Boards that are left alone for a while: they failed twice in a row, or were refused."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

# One failure may be the kernel's.
_FAILURES = 2
_ASIDE_SECONDS = 30.0
_LONGEST_SECONDS = 600.0
# A board that was refused may be good again soon, and asking costs a session.
_REFUSED_SECONDS = 10.0


@dataclass
class _Board:
    failures: int = 0
    until: float = 0.0
    refused: bool = False


class BoardsAside:
    """Counts each board's failures in a row, by name; not thread-safe."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._boards: dict[str, _Board] = {}

    def failed(self, name: str) -> float:
        """Notes that a board was lost with a trial; for how many seconds it is set aside now: not
        the first time, and each further time twice as long."""
        board = self._boards.setdefault(name, _Board())
        board.failures += 1
        if board.failures < _FAILURES:
            return 0.0
        seconds = min(_LONGEST_SECONDS, _ASIDE_SECONDS * 2.0 ** (board.failures - _FAILURES))
        board.until, board.refused = self._monotonic() + seconds, False
        return seconds

    def refused(self, name: str) -> None:
        """Sets a board aside that is not to be used now."""
        board = self._boards.setdefault(name, _Board())
        board.until, board.refused = self._monotonic() + _REFUSED_SECONDS, True

    def measured(self, name: str) -> None:
        """Notes that a trial on a board came to its end."""
        self._boards.pop(name, None)

    def __contains__(self, name: str) -> bool:
        board = self._boards.get(name)
        return board is not None and self._monotonic() < board.until
