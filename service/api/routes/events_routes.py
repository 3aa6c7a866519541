"""What happens to a job as server-sent events, resumed where a client lost the connection."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from tunebook.cache.errors import DatabaseError
from tunebook.cache.queue.job_events import JobEvent
from tunebook.cache.queue.submissions import ENDED
from tunebook.cache.store import Store
from tunebook.service.api.documents.field_types import RowId
from tunebook.service.api.guards.dependencies import (
    Reader,
    StoreOf,
    get_event_feed,
    get_settings,
    get_stopping,
)
from tunebook.service.api.job_event_feed import FollowedJob, JobEventFeed
from tunebook.service.api.problems.problems import Problem
from tunebook.service.api.settings import Settings

_log = logging.getLogger(__name__)

router = APIRouter(tags=["jobs"])

_MEDIA_TYPE = "text/event-stream"
# After losing the connection a browser waits for so long before it comes again.
_RETRY_MILLISECONDS = 2000
_PAGE = 200
_EXAMPLE = (
    'id: 3\nevent: state\ndata: {"number":3,"kind":"state","created_at":"2026-11-30T02:00:00Z",'
    '"data":{"state":"running"}}\n\n'
)

# One event of the stream, which is what OpenAPI describes.
_EVENT = {
    "type": "object",
    "required": ["id", "event", "data"],
    "properties": {
        "id": {"type": "string", "description": "The number of the event."},
        "event": {"type": "string", "description": "`state` or `round`."},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "description": "{number, kind, created_at, data}",
        },
    },
}

LastEventId = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        pattern=r"^[0-9]{1,9}$",
        description="The number of the last event that was received; those after it follow.",
    ),
]


@router.get(
    "/jobs/{job_id}/events",
    summary="Follow a job",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "The job's events from the first one after Last-Event-ID, and a comment "
            "now and then while nothing happens. Ends after the last event of a job that has "
            "ended.",
            "content": {_MEDIA_TYPE: {"schema": _EVENT, "example": _EXAMPLE}},
        },
        204: {"description": "The job has ended, and there are no further events."},
    },
)
async def follow_job(
    job_id: RowId,
    store: StoreOf,
    feed: Annotated[JobEventFeed, Depends(get_event_feed)],
    settings: Annotated[Settings, Depends(get_settings)],
    stopping: Annotated[asyncio.Event, Depends(get_stopping)],
    token: Reader,
    last_event_id: LastEventId = None,
) -> Response:
    """Streams what happens to a job: `state` where its state changes, `round` where a round was
    finished. Each event has its number as its id; a client that comes back with the last one as
    `Last-Event-ID` misses none and sees none twice."""
    job = await run_in_threadpool(store.queue.job, job_id)
    after = int(last_event_id or 0)
    if after > job.last_event:
        raise Problem(
            "usage",
            f"job {job_id} has no event {after} yet, its last is {job.last_event}; leave out "
            "Last-Event-ID to begin with the first",
        )
    if job.state in ENDED and after == job.last_event:
        # A browser comes back for ever otherwise.
        return Response(status_code=204)
    stream = _Stream(store, feed, stopping, job_id, settings.heartbeat_seconds)
    return StreamingResponse(
        stream.parts(after),
        media_type=_MEDIA_TYPE,
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


class _Stream:
    """One client's stream of a job's events."""

    def __init__(
        self,
        store: Store,
        feed: JobEventFeed,
        stopping: asyncio.Event,
        job_id: int,
        heartbeat_seconds: float,
    ) -> None:
        self._store = store
        self._feed = feed
        self._stopping = stopping
        self._job_id = job_id
        self._heartbeat_seconds = heartbeat_seconds

    async def parts(self, after: int) -> AsyncIterator[str]:
        yield f"retry: {_RETRY_MILLISECONDS}\n\n"
        stopped = asyncio.create_task(self._stopping.wait())
        try:
            with self._feed.follow(self._job_id) as followed:
                while not self._stopping.is_set():
                    try:
                        events, has_ended = await run_in_threadpool(self._read, after)
                    except DatabaseError as error:
                        # Its client comes again, and goes on where it was.
                        told = {"job": self._job_id, "error": str(error)}
                        _log.warning("a stream ends", extra=told)
                        return
                    for event in events:
                        yield _event_text(event)
                        after = event.number
                    if has_ended:
                        return
                    if not events and not await self._wait(followed, after, stopped):
                        yield ": nothing new\n\n"
        finally:
            stopped.cancel()

    def _read(self, after: int) -> tuple[tuple[JobEvent, ...], bool]:
        """A page of events, and whether nothing comes after it. The job first: an event that comes
        between the two is one more than it tells of."""
        job = self._store.queue.job(self._job_id)
        events = self._store.queue.events(self._job_id, after, _PAGE)
        reached = events[-1].number if events else after
        return events, job.state in ENDED and reached >= job.last_event

    async def _wait(self, followed: FollowedJob, after: int, stopped: asyncio.Task[Any]) -> bool:
        """Whether there is news before the next heartbeat is due, or the coordinator stops."""
        news = asyncio.create_task(followed.wait_for_news(after, self._heartbeat_seconds))
        try:
            await asyncio.wait({news, stopped}, return_when=asyncio.FIRST_COMPLETED)
            return not news.done() or news.result()
        finally:
            news.cancel()


def _event_text(event: JobEvent) -> str:
    document = {
        "number": event.number,
        "kind": event.kind,
        "created_at": event.created_at.isoformat().replace("+00:00", "Z"),
        "data": event.data,
    }
    data = json.dumps(document, separators=(",", ":"))
    return f"id: {event.number}\nevent: {event.kind}\ndata: {data}\n\n"
