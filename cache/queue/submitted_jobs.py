"""Jobs that are submitted: put into the queue, told when they wait, and ended.

Each function is for one job, since a transaction that locked a budget locks no job after it.
"""

from __future__ import annotations

from collections.abc import Collection
from math import isfinite
from typing import Any

from sqlalchemy import ColumnElement, and_, exists, or_, select, update
from sqlalchemy.orm import Session

from tunebook.cache.errors import NotFoundError, UsageError
from tunebook.cache.queue.budgets import in_time
from tunebook.cache.queue.idempotency import made_before, note_made, take_turn
from tunebook.cache.queue.job_events import STATE, append_event
from tunebook.cache.queue.jobs import add_tasks, finish_job
from tunebook.cache.queue.shared_budgets import (
    budget_use,
    check_limits,
    create_budget,
    limits_the_same,
    raise_limits,
)
from tunebook.cache.queue.submissions import (
    RECOVER,
    SEARCH,
    SPLIT,
    BudgetLimits,
    Idempotency,
    JobRequest,
    JobState,
    Submission,
)
from tunebook.cache.storage.announcements import announce_work
from tunebook.cache.storage.tables import (
    OPEN,
    BudgetRow,
    JobRow,
    ModelRow,
    RoundRow,
    TaskRow,
)

# What a job that nothing keeps waiting is at in each of its stages.
STATE_IN = {SPLIT: JobState.QUEUED, RECOVER: JobState.RECOVERING, SEARCH: JobState.RUNNING}
_EXHAUSTED = "exhausted"


def submit(
    session: Session,
    request: JobRequest,
    budget: BudgetLimits | int,
    idempotency: Idempotency | None,
) -> Submission:
    """See JobQueue.submit."""
    take_turn(session)
    earlier = made_before(session, "job", idempotency)
    if earlier is not None:
        return Submission(earlier, created=False)
    if not (isfinite(request.priority) and request.priority > 0):
        raise UsageError(f"a priority of {request.priority} is none; give a positive number")
    if isinstance(budget, int):
        job = _insert(session, request, _shared_budget(session, budget))
    else:
        check_limits(budget)
        alike = _open_alike(session, request, budget)
        if alike is None:
            job = _insert(session, request, create_budget(session, "", budget))
        else:
            job = _join(session, request, alike, budget)
    note_made(session, "job", job.id, idempotency)
    append_event(session, job.id, STATE, {"state": STATE_IN[job.stage].value, "stage": job.stage})
    # A new job, or one whose budget is larger now.
    announce_work(session)
    return Submission(job.id, created=True)


def _shared_budget(session: Session, budget_id: int) -> int:
    name = session.scalar(select(BudgetRow.name).where(BudgetRow.id == budget_id))
    if not name:
        raise NotFoundError(f"there is no shared budget {budget_id}; make one first")
    return budget_id


def _insert(session: Session, request: JobRequest, budget_id: int, **more: Any) -> JobRow:
    row = JobRow(
        budget_id=budget_id,
        submitted=True,
        state=OPEN,
        digest=request.digest,
        shapes=request.shapes,
        target=request.target,
        board_class=request.board_class,
        emulated=request.emulated,
        choices=request.choices,
        name=request.name,
        priority=request.priority,
        **{"stage": SPLIT, **more},
    )
    session.add(row)
    session.flush()
    return row


def _open_alike(session: Session, request: JobRequest, limits: BudgetLimits) -> JobRow | None:
    """An open job for the same, whose budget is its own and limits the same things."""
    rows = session.execute(
        select(JobRow, BudgetRow)
        .join(BudgetRow, BudgetRow.id == JobRow.budget_id)
        .where(
            *is_open(),
            JobRow.digest == request.digest,
            JobRow.shapes == request.shapes,
            JobRow.target == request.target,
            JobRow.choices == request.choices,
            JobRow.board_class == request.board_class,
            BudgetRow.name == "",
        )
        .order_by(JobRow.id)
    )
    return next((job for job, budget in rows if limits_the_same(budget, limits)), None)


def _join(session: Session, request: JobRequest, alike: JobRow, limits: BudgetLimits) -> JobRow:
    """A job that goes on where the other one is, with the same budget."""
    job = _insert(session, request, alike.budget_id, stage=alike.stage, model_id=alike.model_id)
    if alike.model_id is not None:
        model = session.get_one(ModelRow, alike.model_id)
        add_tasks(session, job.id, model, request.board_class, request.emulated)
    if raise_limits(session, alike.budget_id, limits):
        joined = select(JobRow.id).where(JobRow.budget_id == alike.budget_id, *is_open())
        session.execute(update(TaskRow).where(TaskRow.job_id.in_(joined)).values(exhausted=False))
    return job


def cancel(session: Session, job_id: int) -> None:
    """See JobQueue.cancel."""
    finish_job(session, job_id, JobState.CANCELLED.value, "cancelled")


def spent_jobs(session: Session) -> list[int]:
    """The jobs that `end_if_spent` may end."""
    spent = or_(BudgetRow.spent >= BudgetRow.trial_limit, ~in_time(), _is_exhausted())
    return list(
        session.scalars(
            select(JobRow.id)
            .join(BudgetRow, BudgetRow.id == JobRow.budget_id)
            .where(*is_open(), spent, JobRow.worker.is_(None), ~_has_work_in_flight())
            .order_by(JobRow.id)
        )
    )


def end_if_spent(session: Session, job_id: int) -> bool:
    """Ends a job whose budget is over or whose tasks are exhausted and that has nothing in flight;
    gives whether."""
    unclaimed = _locked(job_id).where(JobRow.worker.is_(None))
    job: JobRow | None = session.scalars(unclaimed).one_or_none()
    if job is None or session.scalar(
        select(JobRow.id).where(JobRow.id == job_id, _has_work_in_flight())
    ):
        return False
    over = budget_use(session.get_one(BudgetRow, job.budget_id)).over
    if over is None and not session.scalar(
        select(JobRow.id).where(JobRow.id == job_id, _is_exhausted())
    ):
        return False
    finish_job(session, job_id, JobState.DONE.value, over or _EXHAUSTED)
    return True


def changed_waiting(session: Session, served: Collection[str]) -> list[int]:
    """The jobs of which `note_waiting` has something to tell."""
    waits = and_(JobRow.board_class.not_in(served), JobRow.worker.is_(None))
    changed = or_(and_(waits, JobRow.reason == ""), and_(~waits, JobRow.reason != ""))
    return list(session.scalars(select(JobRow.id).where(*is_open(), changed).order_by(JobRow.id)))


def note_waiting(session: Session, job_id: int, served: Collection[str]) -> None:
    """Tells that an open job waits for its board class, or does not any more."""
    job: JobRow | None = session.scalars(_locked(job_id)).one_or_none()
    if job is None:
        return
    reason = waiting_reason(job, served)
    if reason == job.reason:
        return
    job.reason = reason
    session.flush()
    if reason:
        told = {"state": JobState.WAITING.value, "waiting_for": job.board_class, "reason": reason}
    else:
        told = {"state": STATE_IN[job.stage].value, "stage": job.stage}
    append_event(session, job_id, STATE, told)


def waiting_reason(job: JobRow, served: Collection[str]) -> str:
    """Why an open job waits; empty where it does not: somebody who is alive can go on with it."""
    if job.worker is not None or job.board_class in served:
        return ""
    board = f"a board of class {job.board_class!r}"
    return f"no worker that is alive has {board} that is not in quarantine"


def is_open() -> tuple[ColumnElement[bool], ...]:
    """Of a submitted job that has not ended."""
    return JobRow.state == OPEN, JobRow.submitted.is_(True)


def _locked(job_id: int) -> Any:
    """A select of an open job (SQLAlchemy 2.0 and 2.1 type it apart)."""
    return (
        select(JobRow)
        .where(JobRow.id == job_id, *is_open())
        .with_for_update(key_share=True)
        .execution_options(populate_existing=True)
    )


def _has_work_in_flight() -> ColumnElement[bool]:
    return exists().where(
        RoundRow.job_id == JobRow.id, RoundRow.state == OPEN, RoundRow.worker.is_not(None)
    )


def _is_exhausted() -> ColumnElement[bool]:
    wanted = exists().where(TaskRow.job_id == JobRow.id, TaskRow.exhausted.is_(False))
    return and_(JobRow.stage == SEARCH, ~wanted)
