"""Records that another program measured: stored beside ours, and never served until measured here.

Where the trace was replayed the record has its module's hash, like any other. Where it was not,
the hash of the trace itself stands there (`trace-...`), which says that nobody has replayed it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from sqlalchemy import Table, delete, exists, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session, aliased

from tunebook.cache.identities import ensure_target, find_ids, find_workload, insert_workload
from tunebook.cache.keys import ScheduleKey, WorkloadKey
from tunebook.cache.known_workloads import find_workloads
from tunebook.cache.records import ErrorClass, Source, Workload
from tunebook.cache.tables import RecordRow

FAILURE_TEXT = "imported as a failure; the file does not say how it failed"
_UNREPLAYED = "trace-"
_PLACE = ("workload_id", "target_id", "emulated")
_CHUNK = 200


@dataclass(frozen=True)
class ImportedRecord:
    """A trial that another program made; without run times it failed. `module_hash` is None where
    nobody replayed the trace."""

    key: ScheduleKey
    trace: str
    run_seconds: tuple[float, ...]
    module_hash: str | None = None


def trace_hash(trace: str) -> str:
    """Stands for the scheduled module of a trace that was not replayed."""
    return _UNREPLAYED + hashlib.sha256(trace.encode()).hexdigest()[:32]


def is_replayed(module_hash: str) -> bool:
    """Whether a record's hash is that of a scheduled module, not of a trace alone."""
    return not module_hash.startswith(_UNREPLAYED)


def import_workloads(session: Session, workloads: Sequence[Workload]) -> tuple[WorkloadKey, ...]:
    """See Store.import_workloads."""
    stored = []
    for workload in sorted(workloads, key=lambda one: one.key):
        key = workload.key
        known = find_workloads(session, key.hash, key.buffers, key.compiler)
        if not known:
            insert_workload(session, workload)
        stored.append((workload.key, known[0] if known else key))
    keys = dict(stored)
    return tuple(keys[workload.key] for workload in workloads)


def replayed_traces(session: Session, key: ScheduleKey) -> frozenset[str]:
    """See Store.replayed_traces."""
    ids = find_ids(session, key)
    if ids is None:
        return frozenset()
    traces = session.execute(
        select(RecordRow.trace)
        .where(
            RecordRow.workload_id == ids[0],
            RecordRow.target_id == ids[1],
            ~RecordRow.module_hash.startswith(_UNREPLAYED),
        )
        .execution_options(yield_per=1000)
    )
    return frozenset(trace_hash(trace) for (trace,) in traces)


def import_records(session: Session, records: Sequence[ImportedRecord]) -> int:
    """See Store.import_records."""
    places = {key: _place(session, key) for key in sorted({record.key for record in records})}
    rows: dict[tuple[int, int, str], dict[str, Any]] = {}
    for record in records:
        row = _row(record, *places[record.key])
        rows.setdefault((row["workload_id"], row["target_id"], row["module_hash"]), row)
        if record.module_hash is not None:
            _name_module(session, row, trace_hash(record.trace))
    # All programs that import take the rows in one order.
    ordered = [rows[identity] for identity in sorted(rows)]
    return sum(
        _insert(session, ordered[start : start + _CHUNK])
        for start in range(0, len(ordered), _CHUNK)
    )


def _place(session: Session, key: ScheduleKey) -> tuple[int, int]:
    workload_id = find_workload(session, key.workload)
    assert workload_id is not None, f"import_workloads comes first: {key.workload}"
    return workload_id, ensure_target(session, key.target)


def _row(record: ImportedRecord, workload_id: int, target_id: int) -> dict[str, Any]:
    failed = not record.run_seconds
    return {
        "workload_id": workload_id,
        "target_id": target_id,
        "module_hash": record.module_hash or trace_hash(record.trace),
        "emulated": False,
        "seconds": None if failed else median(record.run_seconds),
        "error": ErrorClass.RUN.value if failed else None,
        "error_text": FAILURE_TEXT if failed else "",
        "source": Source.IMPORT.value,
        "board_state": {},
        "run_seconds": list(record.run_seconds),
        "trace": record.trace,
    }


def _name_module(session: Session, row: dict[str, Any], unreplayed: str) -> None:
    """Gives a record that was imported before its trace was replayed its module's hash; where that
    module has a record already, the imported one goes."""
    before = {
        **{name: row[name] for name in _PLACE},
        "module_hash": unreplayed,
        "source": Source.IMPORT.value,
    }
    other = aliased(RecordRow)
    taken = exists().where(
        other.workload_id == RecordRow.workload_id,
        other.target_id == RecordRow.target_id,
        other.emulated == RecordRow.emulated,
        other.module_hash == row["module_hash"],
    )
    renamed = update(RecordRow).filter_by(**before).where(~taken)
    session.execute(renamed.values(module_hash=row["module_hash"]))
    session.execute(delete(RecordRow).filter_by(**before))


def _insert(session: Session, rows: Sequence[dict[str, Any]]) -> int:
    table = RecordRow.__table__
    assert isinstance(table, Table)
    dialect = session.get_bind().dialect.name
    insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
    statement = insert(table).on_conflict_do_nothing().returning(table.c.id)
    return len(session.connection().execute(statement, list(rows)).all())
