"""Submitted jobs as they stand: one, a list of them, and those that are searched for."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import and_, func, or_, select
from sqlalchemy.orm import Session, defer

from tunebook.cache.errors import NotFoundError
from tunebook.cache.queue.budgets import in_time
from tunebook.cache.queue.shared_budgets import budget_use
from tunebook.cache.queue.submissions import (
    SEARCH,
    Job,
    JobFilter,
    JobRequest,
    JobState,
    SearchingJob,
)
from tunebook.cache.queue.submitted_jobs import STATE_IN, is_open, waiting_reason
from tunebook.cache.storage.tables import (
    OPEN,
    BudgetRow,
    JobEventHeadRow,
    JobRow,
    RoundRow,
    SlotRow,
)


def read_job(session: Session, job_id: int, served: Collection[str]) -> Job:
    """See JobQueue.job."""
    found = session.execute(_jobs().where(JobRow.id == job_id)).one_or_none()
    if found is None:
        raise NotFoundError(f"there is no job {job_id}; `GET /api/v1/jobs` lists them")
    row, budget, last_event = found
    return _job(row, budget, last_event, served, row.log)


def list_jobs(
    session: Session, wanted: JobFilter, after: int | None, limit: int, served: Collection[str]
) -> tuple[Job, ...]:
    """See JobQueue.jobs."""
    statement = _jobs().options(defer(JobRow.log, raiseload=True))
    for column, value in (
        (JobRow.digest, wanted.digest),
        (JobRow.target, wanted.target),
        (JobRow.board_class, wanted.board_class),
        (JobRow.budget_id, wanted.budget_id),
        (JobRow.name, wanted.name),
    ):
        if value is not None:
            statement = statement.where(column == value)
    if wanted.states:
        statement = statement.where(or_(*(_is_at(state, served) for state in wanted.states)))
    if after is not None:
        statement = statement.where(JobRow.id < after)
    rows = session.execute(statement.order_by(JobRow.id.desc()).limit(limit))
    return tuple(_job(row, budget, last, served, "") for row, budget, last in rows)


def searching_jobs(session: Session, board_classes: Collection[str]) -> tuple[SearchingJob, ...]:
    """See JobQueue.searching."""
    rows = session.execute(
        select(JobRow, BudgetRow)
        .join(BudgetRow, BudgetRow.id == JobRow.budget_id)
        .options(defer(JobRow.log, raiseload=True))
        .where(
            *is_open(),
            JobRow.stage == SEARCH,
            JobRow.board_class.in_(board_classes),
            BudgetRow.spent < BudgetRow.trial_limit,
            in_time(),
        )
        .order_by(JobRow.priority.desc(), JobRow.id)
    )
    return tuple(
        SearchingJob(row.id, row.model_id, request_of(row), budget_use(budget))
        for row, budget in rows
        if row.model_id is not None
    )


def trials_of(session: Session, job_id: int) -> int:
    """See JobQueue.trials."""
    charged = select(func.count()).select_from(SlotRow).join(RoundRow)
    return session.execute(charged.where(RoundRow.job_id == job_id, SlotRow.charged)).scalar_one()


def request_of(row: JobRow) -> JobRequest:
    return JobRequest(
        digest=row.digest,
        shapes=row.shapes,
        target=row.target,
        board_class=row.board_class,
        choices=row.choices,
        name=row.name,
        priority=row.priority,
    )


def _jobs() -> Any:
    """A select of jobs with their budget and last event (SQLAlchemy 2.0 and 2.1 type it apart)."""
    return (
        select(JobRow, BudgetRow, func.coalesce(JobEventHeadRow.last, 0))
        .join(BudgetRow, BudgetRow.id == JobRow.budget_id)
        .outerjoin(JobEventHeadRow, JobEventHeadRow.job_id == JobRow.id)
        .where(JobRow.submitted)
    )


def _job(row: JobRow, budget: BudgetRow, last_event: int, served: Collection[str], log: str) -> Job:
    waiting = waiting_reason(row, served) if row.state == OPEN else ""
    return Job(
        id=row.id,
        request=request_of(row),
        state=_state(row, waiting),
        reason=waiting if row.state == OPEN else row.reason,
        log=log,
        waiting_for=row.board_class if waiting else "",
        budget=budget_use(budget),
        created_at=row.created_at,
        finished_at=row.finished_at,
        model_id=row.model_id,
        last_event=last_event,
    )


def _state(row: JobRow, waiting: str) -> JobState:
    if row.state != OPEN:
        return JobState(row.state)
    return JobState.WAITING if waiting else STATE_IN[row.stage]


def _is_at(state: JobState, served: Collection[str]) -> Any:
    """What `_state` says, as a condition."""
    waits = and_(JobRow.worker.is_(None), JobRow.board_class.not_in(served))
    if state is JobState.WAITING:
        return and_(JobRow.state == OPEN, waits)
    for stage, at in STATE_IN.items():
        if state is at:
            return and_(JobRow.state == OPEN, JobRow.stage == stage, ~waits)
    return JobRow.state == state.value
