"""Records as another program may read them, a page at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.storage.identities import KEY_COLUMNS, key_of
from tunebook.cache.storage.tables import RecordRow, TargetRow, WorkloadRow


@dataclass(frozen=True)
class ExportedRecord:
    """A trial without what only Tunebook knows of it; without run times it failed."""

    id: int
    key: ScheduleKey
    trace: str
    module_hash: str
    run_seconds: tuple[float, ...]


@dataclass(frozen=True)
class ExportSurvey:
    """What there is to export: records of real boards and of emulated ones by this compiler, and
    how many workloads each other compiler has."""

    records: int
    emulated: int
    other_compilers: Mapping[str, int]


def export_survey(session: Session, compiler: str, target: str | None) -> ExportSurvey:
    """See InterchangeRecords.export_survey."""
    counted = (
        select(RecordRow.emulated, func.count().label("records"))
        .select_from(RecordRow)
        .join(WorkloadRow, WorkloadRow.id == RecordRow.workload_id)
        .where(WorkloadRow.compiler == compiler)
        .group_by(RecordRow.emulated)
    )
    others = (
        select(WorkloadRow.compiler, func.count(WorkloadRow.id.distinct()).label("workloads"))
        .select_from(RecordRow)
        .join(WorkloadRow, WorkloadRow.id == RecordRow.workload_id)
        .where(WorkloadRow.compiler != compiler)
        .group_by(WorkloadRow.compiler)
        .order_by(WorkloadRow.compiler)
    )
    if target is not None:
        one = select(TargetRow.id).where(TargetRow.text == target).scalar_subquery()
        counted = counted.where(RecordRow.target_id == one)
        others = others.where(RecordRow.target_id == one)
    by_kind = {row.emulated: row.records for row in session.execute(counted)}
    return ExportSurvey(
        records=by_kind.get(False, 0),
        emulated=by_kind.get(True, 0),
        other_compilers={row.compiler: row.workloads for row in session.execute(others)},
    )


def exported_records(
    session: Session, compiler: str, target: str | None, emulated: bool, after: int, limit: int
) -> tuple[ExportedRecord, ...]:
    """See InterchangeRecords.exported_records."""
    statement = (
        select(
            RecordRow.id,
            RecordRow.module_hash,
            RecordRow.run_seconds,
            RecordRow.error,
            RecordRow.trace,
            TargetRow.text.label("target"),
            *KEY_COLUMNS,
        )
        .join(WorkloadRow, WorkloadRow.id == RecordRow.workload_id)
        .join(TargetRow, TargetRow.id == RecordRow.target_id)
        .where(WorkloadRow.compiler == compiler, RecordRow.id > after)
        .order_by(RecordRow.id)
        .limit(limit)
    )
    if target is not None:
        statement = statement.where(TargetRow.text == target)
    if not emulated:
        statement = statement.where(RecordRow.emulated.is_(False))
    return tuple(
        ExportedRecord(
            id=row.id,
            key=key_of(row, row.target),
            trace=row.trace,
            module_hash=row.module_hash,
            run_seconds=() if row.error is not None else tuple(row.run_seconds),
        )
        for row in session.execute(statement)
    )
