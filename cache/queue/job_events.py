"""What happened to a job, numbered without gaps, in the transaction of what it tells.

Whoever writes an event locks the head row of its job, and nothing after it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from tunebook.cache.storage.announcements import announce_event
from tunebook.cache.storage.identities import CHUNK, insert_missing
from tunebook.cache.storage.tables import JobEventHeadRow, JobEventRow

STATE = "state"
ROUND = "round"


@dataclass(frozen=True)
class JobEvent:
    """One thing that happened to a job: `state` where its state changed, `round` where a round was
    finished. `number` counts a job's events from 1."""

    number: int
    kind: str
    data: dict[str, Any]
    created_at: datetime


def append_event(session: Session, job_id: int, kind: str, data: dict[str, Any]) -> int:
    """Adds an event; gives its number. The last thing that a transaction does."""
    insert_missing(session, JobEventHeadRow, {"job_id": job_id, "last": 0})
    number = session.execute(
        update(JobEventHeadRow)
        .where(JobEventHeadRow.job_id == job_id)
        .values(last=JobEventHeadRow.last + 1)
        .returning(JobEventHeadRow.last)
    ).scalar_one()
    session.add(JobEventRow(job_id=job_id, number=number, kind=kind, data=data))
    session.flush()
    announce_event(session, job_id, int(number))
    return int(number)


def read_events(session: Session, job_id: int, after: int, limit: int) -> tuple[JobEvent, ...]:
    """See JobQueue.events."""
    rows = session.scalars(
        select(JobEventRow)
        .where(JobEventRow.job_id == job_id, JobEventRow.number > after)
        .order_by(JobEventRow.number)
        .limit(limit)
    )
    return tuple(JobEvent(row.number, row.kind, row.data, row.created_at) for row in rows)


def last_events(session: Session, job_ids: Collection[int]) -> dict[int, int]:
    """See JobQueue.last_events."""
    wanted = sorted(job_ids)
    found: dict[int, int] = {}
    for start in range(0, len(wanted), CHUNK):
        some = JobEventHeadRow.job_id.in_(wanted[start : start + CHUNK])
        for row in session.execute(
            select(JobEventHeadRow.job_id, JobEventHeadRow.last).where(some)
        ):
            found[row.job_id] = row.last
    return found
