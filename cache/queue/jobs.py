"""Jobs and their tasks in the database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, ScalarSelect, or_, select, update
from sqlalchemy.orm import Session, aliased

from tunebook.cache.errors import DatabaseError
from tunebook.cache.queue.budgets import ensure_budget, set_limit
from tunebook.cache.queue.job_events import STATE, append_event
from tunebook.cache.queue.leases import freed
from tunebook.cache.queue.rounds import close_open_rounds
from tunebook.cache.storage.identities import insert_missing
from tunebook.cache.storage.moments import now
from tunebook.cache.storage.tables import OPEN, JobRow, ModelRow, ModelTaskRow, TaskRow

_ATTEMPTS = 5


def submit_job(
    session: Session,
    model_id: int,
    board_class: str,
    trials: int | None,
    more: int | None,
    emulated: bool,
) -> int:
    """See Store.submit_job."""
    model = session.get(ModelRow, model_id)
    if model is None:
        raise DatabaseError(f"there is no model {model_id} in this database; save it first")
    budget_id = ensure_budget(session, model)
    place = {"model_id": model_id, "board_class": board_class, "emulated": emulated}
    job_id, created = _open_job(session, place, budget_id)
    # Job, rounds, budget: whoever needs several of them locks them in this order.
    raised = set_limit(session, budget_id, trials, more)
    if created:
        add_tasks(session, job_id, model, board_class, emulated)
    if raised:
        session.execute(update(TaskRow).where(TaskRow.job_id == job_id).values(exhausted=False))
    return job_id


def _open_job(session: Session, place: dict[str, Any], budget_id: int) -> tuple[int, bool]:
    """Creates or finds the open job, locks it, and tells whether it was created."""
    for _ in range(_ATTEMPTS):
        created = insert_missing(session, JobRow, {**place, "budget_id": budget_id, "state": OPEN})
        job_id = session.scalars(
            select(JobRow.id)
            .filter_by(**place, state=OPEN, submitted=False)
            .with_for_update(key_share=True)
        ).one_or_none()
        if job_id is not None:
            return job_id, created
        # There was one, and somebody finished it before it could be locked.
    raise DatabaseError("others finished this job each time it was about to be resumed; try again")


def set_untuned_seconds(session: Session, task_id: int, seconds: float) -> None:
    """See Store.set_untuned_seconds."""
    job, task = aliased(JobRow), aliased(TaskRow)
    wanting = (
        select(TaskRow.id)
        .join(JobRow, JobRow.id == TaskRow.job_id)
        .join(
            task, (task.workload_id == TaskRow.workload_id) & (task.target_id == TaskRow.target_id)
        )
        .join(job, job.id == task.job_id)
        .where(
            task.id == task_id,
            JobRow.board_class == job.board_class,
            JobRow.emulated == job.emulated,
            JobRow.state == OPEN,
            TaskRow.untuned_seconds.is_(None),
        )
    )
    # Two workers with the same workload lock its tasks in one order, never crosswise.
    ids = session.scalars(
        select(TaskRow.id)
        .where(or_(TaskRow.id == task_id, TaskRow.id.in_(wanting)))
        .order_by(TaskRow.id)
        .with_for_update(key_share=True)
    ).all()
    session.execute(update(TaskRow).where(TaskRow.id.in_(ids)).values(untuned_seconds=seconds))


def set_exhausted(session: Session, task_id: int) -> None:
    session.execute(update(TaskRow).where(TaskRow.id == task_id).values(exhausted=True))


def job_is_open(session: Session, job_id: int) -> bool:
    return session.scalar(select(JobRow.state).where(JobRow.id == job_id)) == OPEN


def finish_job(session: Session, job_id: int, state: str, reason: str, log: str = "") -> None:
    """Closes the job's open rounds too, and gives back what they had not spent. Whoever works on
    one of its stages learns so with the next beat."""
    submitted = session.scalar(
        update(JobRow)
        .where(JobRow.id == job_id, JobRow.state == OPEN)
        .values(
            **freed(JobRow),
            state=state,
            reason=reason,
            log=log,
            finished_at=now(),
        )
        .returning(JobRow.submitted)
    )
    close_open_rounds(session, job_id)
    if submitted:
        append_event(session, job_id, STATE, {"state": state, "reason": reason})


def add_tasks(
    session: Session,
    job_id: int,
    model: ModelRow,
    board_class: str,
    emulated: bool,
    *,
    try_again: bool = False,
) -> int:
    """Tasks start from what earlier jobs on the same class of board found out about them, but for
    being exhausted where they are to be tried again. Gives how many there are."""
    earlier = (
        TaskRow.workload_id == ModelTaskRow.workload_id,
        TaskRow.target_id == model.target_id,
        JobRow.board_class == board_class,
        JobRow.emulated == emulated,
        JobRow.id != job_id,
    )
    tasks: dict[int, TaskRow] = {}
    for workload, weight, untuned_seconds, exhausted in session.execute(
        select(
            ModelTaskRow.workload_id,
            ModelTaskRow.weight,
            _newest(TaskRow.untuned_seconds, *earlier, TaskRow.untuned_seconds.is_not(None)),
            _newest(TaskRow.exhausted, *earlier),
        )
        .where(ModelTaskRow.model_id == model.id)
        .order_by(ModelTaskRow.position)
    ):
        task = tasks.setdefault(
            workload,
            TaskRow(
                job_id=job_id,
                workload_id=workload,
                target_id=model.target_id,
                weight=0,
                untuned_seconds=untuned_seconds,
                exhausted=bool(exhausted) and not try_again,
            ),
        )
        task.weight += weight
    session.add_all(tasks.values())
    session.flush()
    return len(tasks)


def _newest(column: Any, *conditions: ColumnElement[bool]) -> ScalarSelect[Any]:
    """Of the tasks of earlier jobs, which may be very many, what the newest one says."""
    return (
        select(column)
        .join(JobRow, JobRow.id == TaskRow.job_id)
        .where(*conditions)
        .order_by(TaskRow.id.desc())
        .limit(1)
        .scalar_subquery()
    )
