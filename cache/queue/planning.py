"""What a plan is made from: how long trials took here, and what is known of a model's tasks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from tunebook.cache.queue.task_states import task_states
from tunebook.cache.storage.database import Database
from tunebook.cache.storage.tables import (
    FINISHED,
    JobRow,
    ModelRow,
    ModelTaskRow,
    RecordRow,
    RoundRow,
    TargetRow,
)
from tunebook.cache.work import TaskState

# Board time by trial comes from this many records, the newest: older ones tell of other loads.
_NEWEST_RECORDS = 20_000


@dataclass(frozen=True)
class MeasuredRate:
    """What trials took on a class of boards for a target: `seconds` is the mean of a whole trial
    (search, build, measurement), of `trials`; `board_seconds` the board's part of it."""

    board_class: str
    target: str
    trials: int
    seconds: float
    board_seconds: float


class TasksFrom(str, Enum):
    """How the number of a model's tasks is known."""

    JOB = "job"
    SPLIT = "split"
    OTHER_TARGET = "other-target"


@dataclass(frozen=True)
class KnownTasks:
    """A model's tasks: how many, and where they stand on a target and class of boards, if a job
    ever was there."""

    count: int
    known_from: TasksFrom
    states: tuple[TaskState, ...] = ()


class Planning:
    """Reads what a plan is made from; each method reads one snapshot and writes nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def measured_rates(self) -> tuple[MeasuredRate, ...]:
        """The rates of all classes of boards and targets that were ever measured."""
        with self._database.reading() as session:
            return _measured_rates(session)

    def known_tasks(
        self, digest: str, shapes: str, target: str, board_class: str
    ) -> KnownTasks | None:
        """What is known of a model's tasks, from its newest job for this target on these boards,
        or else from its split for this target, or else for another; None for a model that was
        never split. `shapes` are those that were given, canonical; the others are the model's."""
        with self._database.reading() as session:
            return _known_tasks(session, digest, shapes, target, board_class)

    def tasks_per_model(self) -> float | None:
        """The mean number of tasks of all models that were split here; None without any."""
        with self._database.reading() as session:
            tasks = session.scalar(select(func.count()).select_from(ModelTaskRow)) or 0
            models = session.scalar(select(func.count()).select_from(ModelRow)) or 0
        return tasks / models if models else None


def _measured_rates(session: Session) -> tuple[MeasuredRate, ...]:
    board_seconds: dict[tuple[int, str], float] = {}
    for target_id, board_class, mean in session.execute(_newest_board_seconds()):
        board_seconds[target_id, board_class] = mean
    rates = session.execute(
        select(
            JobRow.board_class,
            TargetRow.id,
            TargetRow.text,
            func.sum(RoundRow.granted),
            func.sum(RoundRow.seconds),
        )
        .join(JobRow, JobRow.id == RoundRow.job_id)
        .join(TargetRow, TargetRow.id == RoundRow.target_id)
        .where(RoundRow.state == FINISHED, RoundRow.seconds.is_not(None), RoundRow.granted > 0)
        .group_by(JobRow.board_class, TargetRow.id, TargetRow.text)
        .order_by(JobRow.board_class, TargetRow.id)
    )
    return tuple(
        MeasuredRate(
            board_class,
            text,
            int(trials or 0),
            (seconds or 0.0) / (trials or 1),
            board_seconds.get((target_id, board_class), 0.0),
        )
        for board_class, target_id, text, trials, seconds in rates
    )


def _newest_board_seconds() -> Select[Any]:
    newest = (
        select(RecordRow.target_id, RecordRow.board_class, RecordRow.board_seconds)
        .order_by(RecordRow.id.desc())
        .limit(_NEWEST_RECORDS)
        .subquery()
    )
    return select(
        newest.c.target_id, newest.c.board_class, func.avg(newest.c.board_seconds)
    ).group_by(newest.c.target_id, newest.c.board_class)


def _known_tasks(
    session: Session, digest: str, shapes: str, target: str, board_class: str
) -> KnownTasks | None:
    jobs = session.execute(
        select(JobRow.id, ModelRow.shapes)
        .join(ModelRow, ModelRow.id == JobRow.model_id)
        .join(TargetRow, TargetRow.id == ModelRow.target_id)
        .where(
            ModelRow.digest == digest,
            TargetRow.text == target,
            JobRow.board_class == board_class,
        )
        .order_by(JobRow.id.desc())
    )
    for job_id, its_shapes in jobs.all():
        if _agree(shapes, its_shapes):
            states = tuple(task_states(session, job_id))
            return KnownTasks(len(states), TasksFrom.JOB, states)
    models = session.execute(
        select(ModelRow.id, ModelRow.shapes, TargetRow.text)
        .join(TargetRow, TargetRow.id == ModelRow.target_id)
        .where(ModelRow.digest == digest)
        .order_by(ModelRow.saved.desc(), ModelRow.id.desc())
    ).all()
    split = [one for one in models if one.text == target and _agree(shapes, one.shapes)]
    if split:
        return KnownTasks(_count(session, split[0].id), TasksFrom.SPLIT)
    if models:
        return KnownTasks(_count(session, models[0].id), TasksFrom.OTHER_TARGET)
    return None


def _agree(given: str, all_shapes: str) -> bool:
    """Whether a model's shapes are those that were given, and for the others its own."""
    return set(given.split()) <= set(all_shapes.split())


def _count(session: Session, model_id: int) -> int:
    workloads = select(func.count(ModelTaskRow.workload_id.distinct()))
    return session.scalar(workloads.where(ModelTaskRow.model_id == model_id)) or 0
