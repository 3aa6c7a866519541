"""What is served, and for which targets, as lists show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import false, func, select, tuple_
from sqlalchemy.orm import Session

from tunebook.cache.errors import NotFoundError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import Source
from tunebook.cache.storage.identities import KEY_COLUMNS, find_ids, find_target, key_of
from tunebook.cache.storage.tables import (
    BoardPeakRow,
    ModelRow,
    RecordRow,
    ScheduleRow,
    TargetRow,
    WorkloadRow,
)


@dataclass(frozen=True)
class SchedulePosition:
    """Where a schedule stands in the list of all of them."""

    workload_id: int
    target_id: int
    emulated: bool


@dataclass(frozen=True)
class ScheduleFilter:
    """Which schedules a list holds; None leaves out nothing."""

    key: ScheduleKey | None = None
    target: str | None = None
    op: str | None = None
    emulated: bool | None = None


@dataclass(frozen=True)
class ListedSchedule:
    """What is served for a key, as a list shows it; `created_at` is that of its record."""

    position: SchedulePosition
    key: ScheduleKey
    record_id: int
    module_hash: str
    seconds: float
    emulated: bool
    source: Source
    created_at: datetime


@dataclass(frozen=True)
class ListedTarget:
    """A target that something was stored for, with how many models were split for it and how many
    schedules of each kind are served. `features` is a hash of what LLVM switches on for it, empty
    where no model was split."""

    id: int
    text: str
    features: str
    models: int
    schedules: int
    emulated_schedules: int


@dataclass(frozen=True)
class ListedPeak:
    """What a board class can do at most on a target."""

    board_class: str
    target: str
    flops_per_second: float
    bytes_per_second: float
    measured_at: datetime


def listed_schedules(
    session: Session, wanted: ScheduleFilter, after: SchedulePosition | None, limit: int
) -> tuple[ListedSchedule, ...]:
    """See Catalogue.schedules."""
    place = (ScheduleRow.workload_id, ScheduleRow.target_id, ScheduleRow.emulated)
    statement = _narrowed(
        session,
        select(
            *place,
            ScheduleRow.record_id,
            ScheduleRow.seconds,
            RecordRow.module_hash,
            RecordRow.source,
            RecordRow.created_at,
            TargetRow.text.label("target"),
            *KEY_COLUMNS,
        )
        .join(WorkloadRow, WorkloadRow.id == ScheduleRow.workload_id)
        .join(TargetRow, TargetRow.id == ScheduleRow.target_id)
        .join(RecordRow, RecordRow.id == ScheduleRow.record_id),
        wanted,
    )
    if after is not None:
        reached = (after.workload_id, after.target_id, after.emulated)
        statement = statement.where(tuple_(*place) > reached)
    return tuple(
        ListedSchedule(
            position=SchedulePosition(row.workload_id, row.target_id, row.emulated),
            key=key_of(row, row.target),
            record_id=row.record_id,
            module_hash=row.module_hash,
            seconds=row.seconds,
            emulated=row.emulated,
            source=Source(row.source),
            created_at=row.created_at,
        )
        for row in session.execute(statement.order_by(*place).limit(limit))
    )


def listed_targets(session: Session, after: int, limit: int) -> tuple[ListedTarget, ...]:
    """See Catalogue.targets."""
    rows = session.execute(
        select(TargetRow.id, TargetRow.text, TargetRow.features)
        .where(TargetRow.id > after)
        .order_by(TargetRow.id)
        .limit(limit)
    ).all()
    ids = [row.id for row in rows]
    models = _models(session, ids)
    schedules = _schedules(session, ids)
    return tuple(
        ListedTarget(
            id=row.id,
            text=row.text,
            features=row.features,
            models=models.get(row.id, 0),
            schedules=schedules.get((row.id, False), 0),
            emulated_schedules=schedules.get((row.id, True), 0),
        )
        for row in rows
    )


def listed_target(session: Session, target_id: int) -> ListedTarget:
    """See Catalogue.target."""
    found = listed_targets(session, target_id - 1, 1)
    if not found or found[0].id != target_id:
        raise NotFoundError(f"there is no target {target_id}; GET /api/v1/targets lists them")
    return found[0]


def listed_peaks(session: Session) -> tuple[ListedPeak, ...]:
    """See Catalogue.board_peaks."""
    statement = select(BoardPeakRow).order_by(BoardPeakRow.board_class, BoardPeakRow.target)
    return tuple(
        ListedPeak(
            row.board_class,
            row.target,
            row.flops_per_second,
            row.bytes_per_second,
            row.measured_at,
        )
        for row in session.scalars(statement)
    )


def _narrowed(session: Session, statement: Any, wanted: ScheduleFilter) -> Any:
    """A select with what the filter asks for (SQLAlchemy 2.0 and 2.1 type it apart)."""
    if wanted.key is not None:
        ids = find_ids(session, wanted.key)
        if ids is None:
            return statement.where(false())
        statement = statement.where(
            ScheduleRow.workload_id == ids[0], ScheduleRow.target_id == ids[1]
        )
    if wanted.target is not None:
        target_id = find_target(session, wanted.target)
        if target_id is None:
            return statement.where(false())
        statement = statement.where(ScheduleRow.target_id == target_id)
    if wanted.op is not None:
        workloads = select(WorkloadRow.id).where(WorkloadRow.op == wanted.op)
        statement = statement.where(ScheduleRow.workload_id.in_(workloads))
    if wanted.emulated is not None:
        statement = statement.where(ScheduleRow.emulated.is_(wanted.emulated))
    return statement


def _models(session: Session, ids: Sequence[int]) -> dict[int, int]:
    """How many model files were split for each target."""
    counted = session.execute(
        select(ModelRow.target_id, func.count(ModelRow.digest.distinct()))
        .where(ModelRow.target_id.in_(ids))
        .group_by(ModelRow.target_id)
    )
    return {row[0]: row[1] for row in counted}


def _schedules(session: Session, ids: Sequence[int]) -> dict[tuple[int, bool], int]:
    counted = session.execute(
        select(ScheduleRow.target_id, ScheduleRow.emulated, func.count())
        .where(ScheduleRow.target_id.in_(ids))
        .group_by(ScheduleRow.target_id, ScheduleRow.emulated)
    )
    return {(target, emulated): count for target, emulated, count in counted}
