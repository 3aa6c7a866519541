"""The stages of a submitted job that one worker does at a time: splitting, and recovery.

They are claimed with leases like rounds: every later write says which epoch was claimed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, or_, select, update
from sqlalchemy.orm import Session

from tunebook.cache.errors import DatabaseError, LeaseLostError
from tunebook.cache.queue.budgets import in_time
from tunebook.cache.queue.job_events import STATE, append_event
from tunebook.cache.queue.job_listing import request_of
from tunebook.cache.queue.jobs import add_tasks, finish_job
from tunebook.cache.queue.leases import Lease, LeaseObserver, claim, expire, freed
from tunebook.cache.queue.rounds import withdraw_rounds
from tunebook.cache.queue.shared_budgets import budget_use
from tunebook.cache.queue.submissions import RECOVER, SEARCH, SPLIT, ClaimedStage, JobState
from tunebook.cache.queue.submitted_jobs import STATE_IN, is_open
from tunebook.cache.storage.announcements import announce_work
from tunebook.cache.storage.tables import BudgetRow, JobRow, ModelRow

# Of what there is to read about a failure, the end is kept.
_LOG_CHARACTERS = 64_000
# A model that ends every process that works on it must not end all workers there are.
_LOST_WORKERS = 3


@dataclass(frozen=True)
class StageClaim:
    """The stage that was claimed, if any. `again`: one was given up instead; the next is claimed in
    a transaction of its own, since no job is locked after a budget."""

    stage: ClaimedStage | None = None
    again: bool = False


def claim_stage(
    session: Session,
    observer: LeaseObserver,
    worker: str,
    stages: Collection[str],
    board_classes: Collection[str],
) -> StageClaim:
    """See JobQueue.claim_stage."""
    expire_dead_stages(session, observer)
    row = session.scalars(
        select(JobRow)
        .join(BudgetRow, BudgetRow.id == JobRow.budget_id)
        .where(
            *is_open(),
            JobRow.stage.in_(stages),
            or_(
                JobRow.stage == SPLIT,
                and_(JobRow.stage == RECOVER, JobRow.board_class.in_(board_classes)),
            ),
            JobRow.worker.is_(None),
            BudgetRow.spent < BudgetRow.trial_limit,
            in_time(),
        )
        .order_by(JobRow.priority.desc(), JobRow.id)
        .limit(1)
        .with_for_update(skip_locked=True, key_share=True, of=JobRow)
        .execution_options(populate_existing=True)
    ).first()
    if row is None:
        return StageClaim()
    if row.lost_workers >= _LOST_WORKERS:
        _give_up(session, row)
        return StageClaim(again=True)
    claim(row, worker)
    session.flush()
    return StageClaim(
        ClaimedStage(
            job_id=row.id,
            epoch=row.epoch,
            stage=row.stage,
            request=request_of(row),
            model_id=row.model_id,
            budget=budget_use(session.get_one(BudgetRow, row.budget_id)),
        )
    )


def _give_up(session: Session, row: JobRow) -> None:
    """What cannot be split fails; what cannot be recovered is searched for without."""
    if row.stage == SPLIT:
        reason = f"{row.lost_workers} workers ended while they split the model; look at their logs"
        finish_job(session, row.id, JobState.FAILED.value, reason)
    else:
        finish_recovery(session, row.id, row.epoch)


def dead_stages(session: Session, observer: LeaseObserver) -> list[Lease]:
    claimed = session.scalars(
        select(JobRow).where(*is_open(), JobRow.worker.is_not(None)).order_by(JobRow.id)
    ).all()
    return observer.dead(claimed)


def expire_dead_stages(session: Session, observer: LeaseObserver) -> None:
    dead = dead_stages(session, observer)
    expire(session, JobRow, dead, lost_workers=JobRow.lost_workers + 1)


def beat_stage(session: Session, job_id: int, epoch: int) -> None:
    """See JobQueue.beat_stage."""
    _write(session, job_id, epoch, None, {"beat": JobRow.beat + 1})


def release_stage(session: Session, job_id: int, epoch: int) -> None:
    """See JobQueue.release_stage."""
    _write(session, job_id, epoch, None, freed(JobRow))
    announce_work(session)


def finish_split(session: Session, job_id: int, epoch: int, model_id: int) -> None:
    """See JobQueue.finish_split."""
    model = session.get(ModelRow, model_id)
    if model is None:
        raise DatabaseError(f"there is no model {model_id} in this database; save it first")
    _go_on(session, job_id, epoch, SPLIT, RECOVER, model_id=model_id)
    job = session.get_one(JobRow, job_id)
    tasks = add_tasks(session, job_id, model, job.board_class, job.emulated, try_again=True)
    append_event(
        session, job_id, STATE, {"state": STATE_IN[RECOVER].value, "stage": RECOVER, "tasks": tasks}
    )


def finish_recovery(session: Session, job_id: int, epoch: int) -> None:
    """See JobQueue.finish_recovery."""
    _go_on(session, job_id, epoch, RECOVER, SEARCH)
    # They are of the size that recovery wanted.
    withdraw_rounds(session, job_id)
    append_event(session, job_id, STATE, {"state": STATE_IN[SEARCH].value, "stage": SEARCH})


def fail_stage(session: Session, job_id: int, epoch: int, reason: str, log: str) -> None:
    """See JobQueue.fail_stage."""
    beat_stage(session, job_id, epoch)
    finish_job(session, job_id, JobState.FAILED.value, reason, end_of(log))


def end_of(log: str) -> str:
    return log[-_LOG_CHARACTERS:]


def _go_on(
    session: Session, job_id: int, epoch: int, stage: str, following: str, **more: Any
) -> None:
    begun = {"stage": following, "lost_workers": 0}
    _write(session, job_id, epoch, stage, {**begun, **freed(JobRow), **more})
    announce_work(session)


def _write(
    session: Session, job_id: int, epoch: int, stage: str | None, values: dict[str, Any]
) -> None:
    statement = update(JobRow).where(JobRow.id == job_id, JobRow.epoch == epoch, *is_open())
    if stage is not None:
        statement = statement.where(JobRow.stage == stage)
    if session.execute(statement.values(**values).returning(JobRow.id)).first() is None:
        raise LeaseLostError(
            f"job {job_id} was taken over by another worker, cancelled, or ended; leave it and "
            "claim anew"
        )
