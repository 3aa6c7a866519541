"""How long is kept what serves only for a while: clients' keys, and events of jobs that ended."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from tunebook.cache.storage.identities import CHUNK
from tunebook.cache.storage.tables import IdempotencyRow, JobEventHeadRow, JobEventRow, JobRow

# No client retries for longer.
_KEYS_KEPT = timedelta(days=7)
_EVENTS_KEPT = timedelta(days=30)


def forget_old_keys(session: Session, now: datetime) -> None:
    """Forgets the idempotency keys of a week ago: the same key makes something anew."""
    session.execute(delete(IdempotencyRow).where(IdempotencyRow.created_at < now - _KEYS_KEPT))


def forget_old_events(session: Session, now: datetime) -> None:
    """Forgets the events of jobs that ended a month ago, of so many jobs that nobody who wants to
    write waits for long."""
    # Through the heads: those of jobs that were forgotten before are gone. Another coordinator that
    # does the same has others, or none.
    forgotten = session.scalars(
        select(JobEventHeadRow.job_id)
        .join(JobRow, JobRow.id == JobEventHeadRow.job_id)
        .where(JobRow.finished_at < now - _EVENTS_KEPT)
        .order_by(JobEventHeadRow.job_id)
        .limit(CHUNK)
        .with_for_update(skip_locked=True, of=JobEventHeadRow)
    ).all()
    session.execute(delete(JobEventRow).where(JobEventRow.job_id.in_(forgotten)))
    session.execute(delete(JobEventHeadRow).where(JobEventHeadRow.job_id.in_(forgotten)))
