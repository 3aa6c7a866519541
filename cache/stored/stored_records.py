"""Records in the database, and which of them is served."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import and_, delete, or_, select, update
from sqlalchemy.orm import Session, defer

from tunebook.cache.errors import DatabaseError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import Candidate, ErrorClass, Measurement, Record, Source
from tunebook.cache.storage.identities import find_ids, find_target, insert_missing, key_of
from tunebook.cache.storage.revisions import SCHEDULES, bump
from tunebook.cache.storage.tables import OriginRow, RecordRow, ScheduleRow, TargetRow, WorkloadRow
from tunebook.cache.stored.board_standings import note_if_restated, standing_of
from tunebook.cache.stored.imported_records import forget_unreplayed
from tunebook.cache.stored.suspect_records import SUSPECT_IDS, is_suspect
from tunebook.cache.untrusted.trusted_traces import is_trusted

# Long compiler output helps nobody twice; what is kept still shows the cause.
ERROR_TEXT_LIMIT = 4000


def insert_record(
    session: Session,
    workload_id: int,
    target_id: int,
    candidate: Candidate,
    measurement: Measurement,
) -> tuple[int, bool]:
    """Stores a record unless its module has one on this kind of board; gives its id, and whether
    it is new. One that was imported was not measured here yet: it becomes this one, and what was
    imported of the same trace without replaying it goes. What a board in quarantine measured is
    suspect."""
    # Before all else: see there.
    standing = standing_of(session, measurement.board_class, measurement.board)
    identity = {
        "workload_id": workload_id,
        "target_id": target_id,
        "emulated": measurement.emulated,
        "module_hash": candidate.module_hash,
    }
    values = {
        **identity,
        **measured_columns(measurement),
        "trace": candidate.trace,
        "source": candidate.source.value,
        "board_class": measurement.board_class,
        "suspect": standing.in_quarantine,
        "feature_columns": measurement.feature_columns,
        "features": measurement.features,
    }
    if candidate.source is not Source.IMPORT and not measurement.emulated:
        # First of all: an import takes that record before its module's too.
        forget_unreplayed(session, workload_id, target_id, candidate.trace)
    is_new = insert_missing(session, RecordRow, values) or _measured_here(session, values, identity)
    record_id = session.execute(select(RecordRow.id).filter_by(**identity)).scalar_one()
    if is_new:
        note_if_restated(session, record_id, standing)
    if is_new and candidate.origin:
        insert_missing(
            session, OriginRow, {"record_id": record_id, "text": _storable(candidate.origin)}
        )
    return record_id, is_new


def _measured_here(session: Session, values: dict[str, Any], identity: dict[str, Any]) -> bool:
    """Puts a measurement in the place of what an imported record said; false where there is none,
    or it is an imported one itself."""
    if values["source"] == Source.IMPORT.value:
        return False
    imported = session.execute(
        update(RecordRow)
        .filter_by(**identity, source=Source.IMPORT.value)
        .values(**values)
        .returning(RecordRow.id)
    )
    return imported.first() is not None


def measured_columns(measurement: Measurement) -> dict[str, Any]:
    """The columns that a record and a repeat have in common."""
    return {
        "seconds": measurement.seconds,
        "error": None if measurement.error is None else measurement.error.value,
        "error_text": _storable(measurement.error_text),
        "board": measurement.board,
        "board_seconds": measurement.board_seconds,
        "board_state": dict(measurement.board_state),
        "run_seconds": list(measurement.run_seconds),
    }


def _storable(text: str) -> str:
    """What a crashing compiler or board writes may hold bytes that no database takes as text."""
    decodable = text.encode(errors="replace").decode().replace("\0", "?")
    return decodable[:ERROR_TEXT_LIMIT]


def records_of(session: Session, key: ScheduleKey) -> list[Record]:
    ids = find_ids(session, key)
    if ids is None:
        return []
    statement = _records().where(RecordRow.workload_id == ids[0], RecordRow.target_id == ids[1])
    return _read(session, statement.order_by(RecordRow.id))


def training_records(
    session: Session, target: str, compiler: str, limit: int, emulated: bool | None
) -> list[Record]:
    statement = _records().where(
        RecordRow.target_id == find_target(session, target),
        WorkloadRow.compiler == compiler,
        RecordRow.features.is_not(None),
        ~is_suspect(),
    )
    if emulated is not None:
        statement = statement.where(RecordRow.emulated == emulated)
    return _read(session, statement.order_by(RecordRow.id.desc()).limit(limit))


def unverified_best(session: Session, key: ScheduleKey, emulated: bool | None) -> list[Record]:
    ids = find_ids(session, key)
    if ids is None:
        return []
    place = (
        ScheduleRow.workload_id == RecordRow.workload_id,
        ScheduleRow.target_id == RecordRow.target_id,
        ScheduleRow.emulated == RecordRow.emulated,
    )
    served = select(ScheduleRow.seconds).where(*place).scalar_subquery()
    doubtful = is_suspect()
    serves_suspect = select(1).where(*place, ScheduleRow.record_id.in_(SUSPECT_IDS)).exists()
    statement = _records().where(
        RecordRow.workload_id == ids[0],
        RecordRow.target_id == ids[1],
        RecordRow.verified.is_(False),
        RecordRow.seconds.is_not(None),
        RecordRow.source != Source.IMPORT.value,
        # A suspect time says neither that a record is faster nor that another is slower.
        or_(
            served.is_(None),
            and_(RecordRow.seconds < served, ~doubtful | serves_suspect),
            and_(~doubtful, serves_suspect),
        ),
    )
    if emulated is not None:
        statement = statement.where(RecordRow.emulated == emulated)
    return _read(session, statement.order_by(doubtful, RecordRow.seconds, RecordRow.id))


def read_records(session: Session, ids: Sequence[int]) -> tuple[Record, ...]:
    """The records with these ids, in their order."""
    read = _read(session, _records().where(RecordRow.id.in_(ids)))
    found = {record.id: record for record in read}
    return tuple(found[number] for number in ids)


def read_record(session: Session, record_id: int) -> Record:
    """See Store.record."""
    found = _read(session, _records().where(RecordRow.id == record_id))
    if not found:
        raise _no_record(record_id)
    return found[0]


def mark_verified(session: Session, record_id: int) -> None:
    """A record that failed meanwhile stays a failure."""
    row = lock_record(session, record_id)
    if row.error is None:
        session.execute(update(RecordRow).where(RecordRow.id == record_id).values(verified=True))
        choose_served(session, row)


def mark_failed(session: Session, record_id: int, error: ErrorClass, text: str) -> None:
    row = lock_record(session, record_id)
    # How it failed was seen just now: that is not in doubt.
    failed = {"verified": False, "suspect": False, "seconds": None, "error": error.value}
    session.execute(
        update(RecordRow)
        .where(RecordRow.id == record_id)
        .values(**failed, error_text=_storable(text))
    )
    choose_served(session, row)


def lock_record(session: Session, record_id: int) -> Any:
    """Reads a record (where it belongs, `error` and `suspect`), and keeps others from choosing what
    its workload serves meanwhile. Raises DatabaseError where there is none of this id."""
    wanted = select(
        RecordRow.workload_id,
        RecordRow.target_id,
        RecordRow.emulated,
        RecordRow.error,
        RecordRow.suspect,
    ).where(RecordRow.id == record_id)
    row = session.execute(wanted).one_or_none()
    if row is None:
        raise _no_record(record_id)
    session.execute(
        select(WorkloadRow.id).where(WorkloadRow.id == row.workload_id).with_for_update()
    )
    return session.execute(wanted).one()


def _no_record(record_id: int) -> DatabaseError:
    return DatabaseError(f"there is no record {record_id} in this database")


def choose_served(session: Session, row: Any) -> None:
    """Serves the fastest verified record of a workload on a target and kind of board, a suspect one
    only where there is no other. Whoever calls it holds the workload (lock_record)."""
    place = {
        "workload_id": row.workload_id,
        "target_id": row.target_id,
        "emulated": row.emulated,
    }
    verified = _verified(session, **place)
    # Where no trace is trusted, a look-up names the one that it refuses.
    best = next(
        (one for one in verified if is_trusted(one.trace)), verified[0] if verified else None
    )
    session.execute(delete(ScheduleRow).filter_by(**place))
    if best is not None:
        insert_missing(
            session, ScheduleRow, {**place, "record_id": best.id, "seconds": best.seconds}
        )
    bump(session, SCHEDULES)


def fastest_trusted(
    session: Session, workload_id: int, target_id: int, emulated: bool
) -> Any | None:
    """The record that may be served, as `_verified` reads it; None where nothing may."""
    verified = _verified(session, workload_id, target_id, emulated)
    return next((one for one in verified if is_trusted(one.trace)), None)


def _verified(session: Session, workload_id: int, target_id: int, emulated: bool) -> Sequence[Any]:
    """Fastest first, suspect ones last. There are few: a round verifies its best only."""
    return session.execute(
        select(
            RecordRow.id,
            RecordRow.seconds,
            RecordRow.trace,
            RecordRow.module_hash,
            RecordRow.source,
        )
        .where(
            RecordRow.workload_id == workload_id,
            RecordRow.target_id == target_id,
            RecordRow.emulated == emulated,
            RecordRow.verified,
            RecordRow.seconds.is_not(None),
        )
        .order_by(RecordRow.suspect, RecordRow.seconds, RecordRow.id)
    ).all()


def _records() -> Any:
    """A select of records with their workload and target (SQLAlchemy 2.0 and 2.1 type it apart)."""
    return (
        select(RecordRow, WorkloadRow, TargetRow.text, OriginRow.text)
        .join(WorkloadRow, WorkloadRow.id == RecordRow.workload_id)
        .join(TargetRow, TargetRow.id == RecordRow.target_id)
        .outerjoin(OriginRow, OriginRow.record_id == RecordRow.id)
        .options(defer(WorkloadRow.tir))
    )


def _read(session: Session, statement: Any) -> list[Record]:
    rows = session.execute(statement).all()
    return [
        _record(record, key_of(workload, target), origin or "")
        for record, workload, target, origin in rows
    ]


def _record(row: RecordRow, key: ScheduleKey, origin: str) -> Record:
    measurement = Measurement(
        run_seconds=tuple(row.run_seconds),
        error=None if row.error is None else ErrorClass(row.error),
        error_text=row.error_text,
        board=row.board,
        board_class=row.board_class,
        emulated=row.emulated,
        board_seconds=row.board_seconds,
        board_state=row.board_state,
        features=row.features,
        feature_columns=row.feature_columns,
    )
    candidate = Candidate(row.trace, row.module_hash, Source(row.source), origin)
    return Record(row.id, key, candidate, measurement, row.verified, row.suspect)
