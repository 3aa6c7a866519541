"""What look-ups share while the coordinator runs: answers that are kept, and what was counted."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.concurrency import run_in_threadpool

from tunebook.cache.storage.revisions import Revision
from tunebook.cache.store import Store
from tunebook.service.api.lookups.lookup_counter import LookupCounter, Observe
from tunebook.service.api.lookups.remembered_answers import LIMIT_BYTES, RememberedAnswers


class LookupDesk:
    """`counter` counts every look-up between `start` and `stop`, `remembered` keeps answers in at
    most so many bytes."""

    def __init__(
        self,
        store: Store,
        *,
        pipelines: Iterable[str] = (),
        observe: Observe | None = None,
        answer_bytes: int = LIMIT_BYTES,
    ) -> None:
        self._revisions = store.revisions
        self.counter = LookupCounter(store.statistics, named=pipelines, observe=observe)
        self.remembered = RememberedAnswers(answer_bytes)

    def start(self) -> None:
        """Begins to store what is counted. Raises DatabaseError."""
        self.counter.start()

    def stop(self) -> None:
        """Stores what was counted and is not stored yet."""
        self.counter.stop()

    async def revision(self) -> Revision:
        """The present state of the database. Raises DatabaseError."""
        if self._revisions.is_quick:
            return self._revisions.now()
        return await run_in_threadpool(self._revisions.now)
