"""Jobs, their tasks and their budgets in the database."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, defer

from tunebook.cache.errors import BudgetError, DatabaseError
from tunebook.cache.identities import insert_missing, key_of
from tunebook.cache.records import ErrorClass
from tunebook.cache.tables import (
    CLOSED,
    FINISHED,
    OPEN,
    BudgetRow,
    JobRow,
    ModelRow,
    ModelTaskRow,
    RecordRow,
    RoundRow,
    ScheduleRow,
    SlotRow,
    TargetRow,
    TaskRow,
    WorkloadRow,
    now,
)
from tunebook.cache.work import Budget, TaskState

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
    budget_id = _ensure_budget(session, model)
    place = {"model_id": model_id, "board_class": board_class, "emulated": emulated}
    job_id, created = _open_job(session, place, budget_id)
    # Job, rounds, budget: whoever needs several of them locks them in this order.
    raised = _set_limit(session, budget_id, trials, more)
    if created:
        _add_tasks(session, job_id, model, board_class, emulated)
    if raised:
        session.execute(update(TaskRow).where(TaskRow.job_id == job_id).values(exhausted=False))
    return job_id


def _open_job(session: Session, place: dict[str, Any], budget_id: int) -> tuple[int, bool]:
    """Creates or finds the open job, locks it, and tells whether it was created."""
    for _ in range(_ATTEMPTS):
        created = insert_missing(session, JobRow, {**place, "budget_id": budget_id, "state": OPEN})
        job_id = session.scalars(
            select(JobRow.id).filter_by(**place, state=OPEN).with_for_update(key_share=True)
        ).one_or_none()
        if job_id is not None:
            return job_id, created
        # There was one, and somebody finished it before it could be locked.
    raise DatabaseError("others finished this job each time it was about to be resumed; try again")


def read_budget(session: Session, job_id: int) -> Budget:
    row = session.execute(
        select(BudgetRow).join(JobRow, JobRow.budget_id == BudgetRow.id).where(JobRow.id == job_id)
    ).scalar_one_or_none()
    if row is None:
        raise DatabaseError(f"there is no job {job_id} in this database")
    return Budget(row.id, row.trial_limit, row.granted, row.spent, row.board_seconds)


def set_untuned_seconds(session: Session, task_id: int, seconds: float) -> None:
    session.execute(update(TaskRow).where(TaskRow.id == task_id).values(untuned_seconds=seconds))


def set_exhausted(session: Session, task_id: int) -> None:
    session.execute(update(TaskRow).where(TaskRow.id == task_id).values(exhausted=True))


def job_is_open(session: Session, job_id: int) -> bool:
    return session.scalar(select(JobRow.state).where(JobRow.id == job_id)) == OPEN


def finish_job(session: Session, job_id: int, state: str, reason: str) -> None:
    """Closes the job's open rounds too, and gives back what they had not spent."""
    session.execute(
        update(JobRow)
        .where(JobRow.id == job_id, JobRow.state == OPEN)
        .values(state=state, reason=reason, finished_at=now())
    )
    # All are locked before the first gives back to the budget: a claim locks in that order too.
    open_rounds = session.scalars(
        select(RoundRow.id)
        .where(RoundRow.job_id == job_id, RoundRow.state == OPEN)
        .order_by(RoundRow.workload_id)
        .with_for_update()
    )
    for round_id in open_rounds.all():
        close_round(session, round_id, CLOSED)


def close_round(session: Session, round_id: int, state: str) -> None:
    """Ends a round as `finished` or `closed`; what was granted and not charged goes back."""
    row = session.execute(
        select(RoundRow).where(RoundRow.id == round_id).with_for_update()
    ).scalar_one()
    charged = session.execute(
        select(func.count()).where(SlotRow.round_id == round_id, SlotRow.charged)
    ).scalar_one()
    unspent = (row.granted or 0) - charged
    session.execute(
        update(BudgetRow)
        .where(
            BudgetRow.id
            == select(JobRow.budget_id).where(JobRow.id == row.job_id).scalar_subquery()
        )
        .values(granted=BudgetRow.granted - unspent)
    )
    best = session.scalar(
        select(func.min(RecordRow.seconds)).where(
            RecordRow.workload_id == row.workload_id,
            RecordRow.target_id == row.target_id,
            RecordRow.emulated == row.emulated,
        )
    )
    session.execute(
        update(RoundRow)
        .where(RoundRow.id == round_id)
        .values(
            state=state,
            # Whoever still holds it learns so with the next write.
            epoch=RoundRow.epoch + 1,
            granted=charged,
            worker=None,
            holder=None,
            best_seconds=best,
            finished_at=now(),
        )
    )


def task_states(session: Session, job_id: int) -> list[TaskState]:
    emulated = session.execute(select(JobRow.emulated).where(JobRow.id == job_id)).scalar_one()
    tasks = session.execute(
        select(TaskRow, WorkloadRow, TargetRow.text)
        .join(WorkloadRow, WorkloadRow.id == TaskRow.workload_id)
        .join(TargetRow, TargetRow.id == TaskRow.target_id)
        .options(defer(WorkloadRow.tir))
        .where(TaskRow.job_id == job_id)
        .order_by(TaskRow.id)
    ).all()
    measured = _Measured.read(session, job_id, emulated)
    return [
        TaskState(
            id=task.id,
            key=key_of(workload, target),
            weight=task.weight,
            flops=workload.flops,
            untuned_seconds=task.untuned_seconds,
            best_seconds=measured.best.get(task.workload_id),
            served_seconds=measured.served.get(task.workload_id),
            trials=measured.trials.get(task.workload_id, 0),
            history=tuple(measured.history.get(task.workload_id, ())),
            exhausted=task.exhausted,
            failures=dict(measured.failures.get(task.workload_id, {})),
        )
        for task, workload, target in tasks
    ]


class _Measured:
    """What was measured of each workload of a job, by workload id."""

    def __init__(self) -> None:
        self.best: dict[int, float] = {}
        self.served: dict[int, float] = {}
        self.trials: dict[int, int] = defaultdict(int)
        self.history: dict[int, list[float]] = defaultdict(list)
        self.failures: dict[int, dict[ErrorClass, int]] = defaultdict(dict)

    @classmethod
    def read(cls, session: Session, job_id: int, emulated: bool) -> _Measured:
        measured = cls()

        def of_job(row: type[RecordRow] | type[ScheduleRow] | type[RoundRow]) -> Any:
            return (
                (TaskRow.job_id == job_id)
                & (row.workload_id == TaskRow.workload_id)
                & (row.target_id == TaskRow.target_id)
                & (row.emulated == emulated)
            )

        for workload, error, trials, best in session.execute(
            select(
                RecordRow.workload_id, RecordRow.error, func.count(), func.min(RecordRow.seconds)
            )
            .where(of_job(RecordRow))
            .group_by(RecordRow.workload_id, RecordRow.error)
        ):
            measured.trials[workload] += trials
            if error is None and best is not None:
                measured.best[workload] = best
            elif error is not None:
                measured.failures[workload][ErrorClass(error)] = trials
        for workload, seconds in session.execute(
            select(ScheduleRow.workload_id, ScheduleRow.seconds).where(of_job(ScheduleRow))
        ):
            measured.served[workload] = seconds
        # The state is looked at here: SQLite would else go through all finished rounds there are.
        for workload, state, best in session.execute(
            select(RoundRow.workload_id, RoundRow.state, RoundRow.best_seconds)
            .where(of_job(RoundRow))
            .order_by(RoundRow.id)
        ):
            if state == FINISHED:
                measured.history[workload].append(math.inf if best is None else best)
        return measured


def _ensure_budget(session: Session, model: ModelRow) -> int:
    identity = {
        "digest": model.digest,
        "shapes": model.shapes,
        "target_id": model.target_id,
        "compiler": model.compiler,
    }
    insert_missing(session, BudgetRow, {**identity})
    return session.execute(select(BudgetRow.id).filter_by(**identity)).scalar_one()


def _set_limit(session: Session, budget_id: int, trials: int | None, more: int | None) -> bool:
    """Gives whether the budget allows more trials than before."""
    row = session.execute(
        select(BudgetRow).where(BudgetRow.id == budget_id).with_for_update()
    ).scalar_one()
    if trials is not None and more is not None:
        raise BudgetError("--trials sets the total and --more adds to it; give one of them")
    if trials is None and more is None:
        return False
    wanted = row.spent + more if more is not None else trials
    assert wanted is not None
    if wanted < 0 or (more is not None and more < 0):
        raise BudgetError("a number of trials cannot be negative")
    before = row.trial_limit
    # Trials in flight stay granted, whatever the new limit.
    limit = max(wanted, row.granted)
    session.execute(update(BudgetRow).where(BudgetRow.id == budget_id).values(trial_limit=limit))
    return limit > before


def _add_tasks(
    session: Session, job_id: int, model: ModelRow, board_class: str, emulated: bool
) -> None:
    """Tasks start from what earlier jobs on the same class of board found out about them."""
    weights: dict[int, int] = defaultdict(int)
    for workload, weight in session.execute(
        select(ModelTaskRow.workload_id, ModelTaskRow.weight)
        .where(ModelTaskRow.model_id == model.id)
        .order_by(ModelTaskRow.position)
    ):
        weights[workload] += weight
    earlier = session.execute(
        select(TaskRow.workload_id, TaskRow.untuned_seconds, TaskRow.exhausted)
        .join(JobRow, JobRow.id == TaskRow.job_id)
        .where(
            TaskRow.workload_id.in_(weights),
            TaskRow.target_id == model.target_id,
            JobRow.board_class == board_class,
            JobRow.emulated == emulated,
            JobRow.id != job_id,
        )
        .order_by(TaskRow.id)
    )
    untuned: dict[int, float] = {}
    exhausted: dict[int, bool] = {}
    for workload, seconds, is_exhausted in earlier:
        exhausted[workload] = is_exhausted
        if seconds is not None:
            untuned[workload] = seconds
    session.add_all(
        TaskRow(
            job_id=job_id,
            workload_id=workload,
            target_id=model.target_id,
            weight=weight,
            untuned_seconds=untuned.get(workload),
            exhausted=exhausted.get(workload, False),
        )
        for workload, weight in weights.items()
    )
    session.flush()
