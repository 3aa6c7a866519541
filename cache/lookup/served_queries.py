"""What is served for many workloads, at a cost that does not grow with what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Row,
    Select,
    String,
    bindparam,
    func,
    literal_column,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from tunebook.cache.storage.identities import KEY_COLUMNS
from tunebook.cache.storage.tables import RecordRow, ScheduleRow, TargetRow, WorkloadRow

_KINDS = ScheduleRow.emulated.in_(bindparam("kinds", expanding=True, type_=Boolean))
_RECORD_COLUMNS = (RecordRow.id, RecordRow.trace, RecordRow.module_hash, RecordRow.source)
_MAY_BE_SERVED = (RecordRow.verified, RecordRow.error.is_(None))


def served_rows(
    session: Session, target: str, hashes: Sequence[str], kinds: Sequence[bool]
) -> Sequence[Row[Any]]:
    """The served records of workloads with these hashes on a target: op, buffers, compiler, hash,
    emulated, seconds, and the record's id, trace, module hash and source. `kinds` are those of
    `emulated` that are wanted."""
    parameters = {"target": target, "hashes": hashes, "kinds": kinds}
    connection = session.connection()
    on_server = connection.dialect.name == "postgresql"
    return connection.execute(_ON_SERVER if on_server else _IN_FILE, parameters).all()


def _in_file() -> Select[Any]:
    served: list[Any] = [ScheduleRow.emulated, ScheduleRow.seconds]
    return (
        select(*KEY_COLUMNS, *served, *_RECORD_COLUMNS)
        .join(ScheduleRow, ScheduleRow.workload_id == WorkloadRow.id)
        # Not by the index of a target's schedules, of which there may be as many as there are.
        .join(TargetRow, TargetRow.id == ScheduleRow.target_id + 0)
        .join(RecordRow, RecordRow.id == ScheduleRow.record_id)
        .where(
            WorkloadRow.hash.in_(bindparam("hashes", expanding=True, type_=String)),
            TargetRow.text == bindparam("target", type_=String),
            _KINDS,
            *_MAY_BE_SERVED,
        )
    )


def _on_server() -> Select[Any]:
    """A server that guesses how many rows a join gives reads all schedules there are, up to some
    tens of thousands of them, where it finds that cheaper than a hundred reads by index. One hash
    after the other, each step can only go by its index: what has an OFFSET is planned by itself."""
    hashes = func.unnest(bindparam("hashes", type_=ARRAY(String)))
    wanted = hashes.table_valued("hash").render_derived(name="wanted")
    nothing_left_out: ColumnElement[int] = literal_column("0")
    workload = (
        select(WorkloadRow.id.label("workload_id"), *KEY_COLUMNS)
        .where(WorkloadRow.hash == wanted.c.hash)
        .offset(nothing_left_out)
        .lateral("workload")
    )
    target = select(TargetRow.id).where(TargetRow.text == bindparam("target", type_=String))
    schedule = (
        select(ScheduleRow.emulated, ScheduleRow.seconds, ScheduleRow.record_id)
        .where(
            ScheduleRow.workload_id == workload.c.workload_id,
            ScheduleRow.target_id == target.scalar_subquery(),
            _KINDS,
        )
        .offset(nothing_left_out)
        .lateral("schedule")
    )
    record = (
        select(*_RECORD_COLUMNS)
        .where(RecordRow.id == schedule.c.record_id, *_MAY_BE_SERVED)
        .offset(nothing_left_out)
        .lateral("record")
    )
    key = [workload.c[column.name] for column in KEY_COLUMNS]
    return (
        select(*key, schedule.c.emulated, schedule.c.seconds, *record.c)
        .select_from(wanted)
        .join(workload, true())
        .join(schedule, true())
        .join(record, true())
    )


# Made once: making them takes as long as asking does.
_IN_FILE = _in_file()
_ON_SERVER = _on_server()
