"""Tells those who stream a job's events when there are new ones.

However many streams there are, one question about all of their jobs goes to the database in each
interval, from one thread, and nobody holds a connection between two questions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from anyio import CapacityLimiter, to_thread

from tunebook.cache.errors import TunebookError

_log = logging.getLogger(__name__)

POLL_SECONDS = 0.5

LastEvents = Callable[[Collection[int]], Mapping[int, int]]


@dataclass(frozen=True, eq=False)
class _Wait:
    """Somebody who waits for an event of a job that comes after the number `after`."""

    job_id: int
    after: int
    told: asyncio.Future[None]


class JobEventFeed:
    """Looks for new events while somebody waits for any, for as many jobs as there are."""

    def __init__(self, last_events: LastEvents, *, poll_seconds: float = POLL_SECONDS) -> None:
        self._last_events = last_events
        self._poll_seconds = poll_seconds
        self._waits: set[_Wait] = set()
        self._polling: asyncio.Task[None] | None = None
        # A thread of its own: it is not to stand in line behind requests.
        self._limiter: CapacityLimiter | None = None

    async def wait_for_news(self, job_id: int, after: int, timeout: float) -> bool:
        """Waits until the job has an event whose number is above `after`; false where it has none
        within `timeout` seconds."""
        wait = _Wait(job_id, after, asyncio.get_running_loop().create_future())
        self._waits.add(wait)
        if self._polling is None:
            self._polling = asyncio.create_task(self._poll())
        try:
            await asyncio.wait_for(wait.told, timeout)
        except asyncio.TimeoutError:
            return False
        finally:
            self._waits.discard(wait)
        return True

    async def close(self) -> None:
        """Asks no more questions; whoever still waits does so until their time is over."""
        if self._polling is not None:
            self._polling.cancel()
            with suppress(asyncio.CancelledError):
                await self._polling

    async def _poll(self) -> None:
        try:
            while self._waits:
                self._tell(await self._ask({wait.job_id for wait in self._waits}))
                await asyncio.sleep(self._poll_seconds)
        finally:
            self._polling = None

    async def _ask(self, job_ids: Collection[int]) -> Mapping[int, int]:
        if self._limiter is None:
            self._limiter = CapacityLimiter(1)
        try:
            return await to_thread.run_sync(self._last_events, job_ids, limiter=self._limiter)
        except TunebookError as error:
            # The streams go on: their clients would only come again at once.
            _log.warning("cannot look for events of jobs", extra={"error": str(error)})
            return {}

    def _tell(self, last: Mapping[int, int]) -> None:
        for wait in list(self._waits):
            if last.get(wait.job_id, 0) > wait.after and not wait.told.done():
                wait.told.set_result(None)
