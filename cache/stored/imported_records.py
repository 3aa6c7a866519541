"""Records that another program measured: stored beside ours, and never served until measured here.

Where the trace was replayed the record has its module's hash, like any other. Where it was not,
the hash of the trace itself stands there (`trace-...`), which says that nobody has replayed it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from statistics import median
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from tunebook.cache.keys import ScheduleKey, WorkloadKey
from tunebook.cache.records import ErrorClass, Source, Workload
from tunebook.cache.storage.identities import (
    CHUNK,
    ensure_target,
    find_ids,
    find_workload_ids,
    insert_or_nothing,
    insert_workload,
)
from tunebook.cache.storage.tables import RecordRow
from tunebook.cache.stored.known_workloads import find_workloads

FAILURE_TEXT = "imported as a failure; the file does not say how it failed"
_UNREPLAYED = "trace-"


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
    """See InterchangeRecords.import_workloads."""
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
    """See InterchangeRecords.replayed_traces."""
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
    # SQLite stores values of any type in any column: what is no text was replayed by nobody.
    return frozenset(trace_hash(trace) for (trace,) in traces if isinstance(trace, str))


def import_records(session: Session, records: Sequence[ImportedRecord]) -> int:
    """See InterchangeRecords.import_records."""
    places = _places(session, {record.key for record in records})
    rows: dict[tuple[int, int, str], dict[str, Any]] = {}
    named: dict[tuple[int, int], dict[str, str]] = {}
    for record in records:
        place = places[record.key]
        row = _row(record, *place)
        rows.setdefault((*place, row["module_hash"]), row)
        if record.module_hash is not None:
            named.setdefault(place, {})[trace_hash(record.trace)] = record.module_hash
    for place in sorted(named):
        names = sorted(named[place])
        for start in range(0, len(names), CHUNK):
            _name_modules(
                session, place, {name: named[place][name] for name in names[start : start + CHUNK]}
            )
    # All programs that import take the rows in one order.
    return _insert(session, [rows[identity] for identity in sorted(rows)])


def forget_unreplayed(session: Session, workload_id: int, target_id: int, trace: str) -> None:
    """Removes what was imported of a trace without replaying it, now that it was measured here."""
    session.execute(
        delete(RecordRow).filter_by(
            workload_id=workload_id,
            target_id=target_id,
            emulated=False,
            module_hash=trace_hash(trace),
            source=Source.IMPORT.value,
        )
    )


def _places(session: Session, keys: Set[ScheduleKey]) -> dict[ScheduleKey, tuple[int, int]]:
    """The ids of workloads and targets."""
    workloads = find_workload_ids(session, sorted({key.workload_hash for key in keys}))
    targets = {text: ensure_target(session, text) for text in sorted({key.target for key in keys})}
    return {key: (workloads[key.workload], targets[key.target]) for key in keys}


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


def _name_modules(session: Session, place: tuple[int, int], modules: Mapping[str, str]) -> None:
    """Gives records of a workload on a target that were imported before their traces were replayed
    their modules' hashes; where a module has a record already, the imported one goes."""
    here = dict(zip(("workload_id", "target_id"), place, strict=True), emulated=False)
    unnamed = session.execute(
        select(RecordRow.id, RecordRow.module_hash)
        .filter_by(**here, source=Source.IMPORT.value)
        .where(RecordRow.module_hash.in_(list(modules)))
    )
    # Sorted here: asked to, SQLite reads the whole table in that order instead of an index.
    for record_id, unreplayed in sorted(unnamed.all()):
        if not _name_module(session, record_id, modules[unreplayed]):
            session.execute(delete(RecordRow).where(RecordRow.id == record_id))


def _name_module(session: Session, record_id: int, module_hash: str) -> bool:
    """Whether a record got its module's hash: it does not where the module has a record already.

    Only trying tells: a worker may be storing one just now.
    """
    try:
        with session.begin_nested():
            session.execute(
                update(RecordRow).where(RecordRow.id == record_id).values(module_hash=module_hash)
            )
    except IntegrityError:
        return False
    return True


def _insert(session: Session, rows: list[dict[str, Any]]) -> int:
    if not rows:
        return 0
    statement = insert_or_nothing(session, RecordRow).returning(RecordRow.id)
    return len(session.connection().execute(statement, rows).all())
