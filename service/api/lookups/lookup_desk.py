"""What look-ups share while the coordinator runs: answers that are kept, and what was counted."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from tunebook.cache.storage.revisions import Revision
from tunebook.cache.store import Store
from tunebook.service.api.brief_questions import BriefQuestions
from tunebook.service.api.lookups.hot_answers import HotAnswers
from tunebook.service.api.lookups.lookup_counter import LookupCounter, Observe
from tunebook.service.api.lookups.remembered_answers import (
    LIMIT_BYTES,
    LookupReply,
    RememberedAnswers,
)


class LookupDesk:
    """`counter` counts every look-up between `start` and `stop`, `remembered` keeps answers in at
    most so many bytes, `hot` are those of other replicas, where there may be any."""

    def __init__(
        self,
        store: Store,
        *,
        pipelines: Iterable[str] = (),
        observe: Observe | None = None,
        answer_bytes: int = LIMIT_BYTES,
        hot: HotAnswers | None = None,
    ) -> None:
        self._revisions = store.revisions
        self.counter = LookupCounter(store.statistics, named=pipelines, observe=observe)
        self.remembered = RememberedAnswers(answer_bytes)
        self.hot = hot
        self._questions = BriefQuestions()

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

    async def known_reply(self, name: bytes, now: Revision) -> LookupReply | None:
        """The reply that was made before and holds, by this replica or by another."""
        reply = self.remembered.get(name, now)
        if reply is None:
            reply = await self._shared_reply(name, now)
            if reply is not None:
                self.remembered.put(name, reply)
        return reply

    def keep(self, response: Response, name: bytes, reply: LookupReply) -> None:
        """Keeps a new reply, and for other replicas once its response was sent."""
        self.remembered.put(name, reply)
        if self.hot is not None and self.hot.are_there:
            response.background = BackgroundTask(self.hot.put, name, reply)

    async def _shared_reply(self, name: bytes, now: Revision) -> LookupReply | None:
        hot = self.hot
        if hot is None or not hot.are_there:
            return None
        return await self._questions.ask(lambda: hot.get(name, now))
