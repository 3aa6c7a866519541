"""Saying that a worker is there, with which boards, and what it does."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from types import TracebackType

from tunebook.cache.errors import DatabaseError
from tunebook.cache.queue.fleet import ServedBoard
from tunebook.cache.store import Store
from tunebook.workers.rounds.repeating import Repeating

_log = logging.getLogger(__name__)
_BEAT_SECONDS = 2.0


class Activity:
    """What a worker does now, in a few words, as each of its threads says."""

    def __init__(self) -> None:
        self._by_thread: dict[int, str] = {}

    def note(self, text: str) -> None:
        """What the calling thread does from now on; empty for nothing."""
        self._by_thread[threading.get_ident()] = text

    def __str__(self) -> str:
        told = sorted({text for text in self._by_thread.copy().values() if text})
        return "; ".join(told) or "idle"


class WorkerPresence:
    """Announces a worker while its `with` block lasts, and that it left at the end.

    `look` gives the boards that are there; it is called before each beat.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        compiler: str,
        activity: Activity,
        look: Callable[[], Sequence[ServedBoard]],
    ) -> None:
        self._store = store
        self._name = name
        self._compiler = compiler
        self._activity = activity
        self._look = look
        self._beats = Repeating("presence", _BEAT_SECONDS, self._announce)

    def __enter__(self) -> WorkerPresence:
        self._announce()
        self._beats.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._beats.stop()
        try:
            self._store.fleet.leave(self._name)
        except DatabaseError as fault:
            # It is seen to be gone once its beat stands still.
            _log.warning("leaving was not told: %s", fault, extra={"worker": self._name})

    def _announce(self) -> None:
        boards = self._look()
        try:
            self._store.fleet.announce(self._name, boards, str(self._activity), self._compiler)
        except DatabaseError as error:
            _log.warning("a beat failed: %s", error, extra={"worker": self._name})
