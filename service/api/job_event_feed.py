"""Tells those who stream a job's events when there are new ones.

What this process commits it hears of itself, and what others do over Redis, which only says that
there is something: the events themselves are read from the database. That is looked into as well,
often while Redis is away: however many streams there are, one question about all of their jobs
goes there in each interval, from one thread, and nobody holds a connection between two questions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress

from anyio import CapacityLimiter, to_thread

from tunebook.cache.errors import TunebookError
from tunebook.cache.live.live import Live
from tunebook.cache.live.live_counts import FROM_DATABASE

_log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
# While Redis is there: whoever told of an event may have died before it could.
SHARED_POLL_SECONDS = 2.0

LastEvents = Callable[[Collection[int]], Mapping[int, int]]


class FollowedJob:
    """A job that somebody follows: what is told from the beginning on is not missed."""

    def __init__(self, job_id: int, begins_to_wait: Callable[[], None]) -> None:
        self.job_id = job_id
        self.is_waiting = False
        self._begins_to_wait = begins_to_wait
        self._news = asyncio.Event()
        self._after = 0
        self._told = 0

    def tell(self, last: int) -> bool:
        """The job has events up to this number; whether nobody had told so yet."""
        if last <= max(self._after, self._told):
            return False
        self._told = last
        self._news.set()
        return True

    async def wait_for_news(self, after: int, timeout: float) -> bool:
        """Waits until the job is said to have an event whose number is above `after`; false where
        it is not within `timeout` seconds. Each that is told ends one wait: whoever told may have
        been wrong."""
        if self._told <= after:
            self._news.clear()
        self._after = after
        self.is_waiting = True
        self._begins_to_wait()
        try:
            await asyncio.wait_for(self._news.wait(), timeout)
        except asyncio.TimeoutError:
            return False
        finally:
            self.is_waiting = False
        self._news.clear()
        self._told = 0
        return True


class JobEventFeed:
    """Hears of new events, and looks for them while somebody waits for any."""

    def __init__(
        self,
        last_events: LastEvents,
        live: Live,
        *,
        poll_seconds: float = POLL_SECONDS,
        shared_poll_seconds: float = SHARED_POLL_SECONDS,
    ) -> None:
        self._last_events = last_events
        self._live = live
        self._poll_seconds = poll_seconds
        self._shared_poll_seconds = shared_poll_seconds
        self._followed: set[FollowedJob] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._look = asyncio.Event()
        self._polling: asyncio.Task[None] | None = None
        # A thread of its own: it is not to stand in line behind requests.
        self._limiter: CapacityLimiter | None = None
        live.on_events(self._hear)
        live.on_change(lambda: self._in_loop(self._look.set))

    @contextmanager
    def follow(self, job_id: int) -> Iterator[FollowedJob]:
        """Follows a job meanwhile, so that no news between reading its events and waiting for more
        are missed."""
        self._loop = asyncio.get_running_loop()
        followed = FollowedJob(job_id, self._keep_polling)
        self._followed.add(followed)
        try:
            yield followed
        finally:
            self._followed.discard(followed)

    async def close(self) -> None:
        """Asks no more questions; whoever still waits does so until their time is over."""
        self._loop = None
        if self._polling is not None:
            self._polling.cancel()
            with suppress(asyncio.CancelledError):
                await self._polling

    def _hear(self, events: Mapping[int, int], source: str) -> None:
        if self._followed:
            self._in_loop(lambda: self._tell(events, source))

    def _in_loop(self, act: Callable[[], object]) -> None:
        loop = self._loop
        if loop is not None:
            # The loop ends with the coordinator, and news may come still.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(act)

    def _keep_polling(self) -> None:
        if self._polling is None:
            self._polling = asyncio.create_task(self._poll())

    async def _poll(self) -> None:
        try:
            while waiting := {one.job_id for one in self._followed if one.is_waiting}:
                self._look.clear()
                self._tell(await self._ask(waiting), FROM_DATABASE)
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._look.wait(), self._interval)
        finally:
            self._polling = None

    @property
    def _interval(self) -> float:
        return self._shared_poll_seconds if self._live.is_up else self._poll_seconds

    async def _ask(self, job_ids: Collection[int]) -> Mapping[int, int]:
        if self._limiter is None:
            self._limiter = CapacityLimiter(1)
        try:
            return await to_thread.run_sync(self._last_events, job_ids, limiter=self._limiter)
        except TunebookError as error:
            # The streams go on: their clients would only come again at once.
            _log.warning("cannot look for events of jobs", extra={"error": str(error)})
            return {}

    def _tell(self, last: Mapping[int, int], source: str) -> None:
        for one in self._followed:
            if one.tell(last.get(one.job_id, 0)):
                self._live.counts.heard_of_events(source)
