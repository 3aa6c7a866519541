"""Records that are taken over for an equivalent target: the same code was measured already."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from tunebook.cache.errors import DatabaseError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import Source
from tunebook.cache.storage.identities import ensure_target, find_workload, insert_missing
from tunebook.cache.storage.tables import OriginRow, RecordRow
from tunebook.cache.stored.board_standings import standing_of


def adopt_record(session: Session, record_id: int, key: ScheduleKey, origin: str) -> int:
    """See Store.adopt_record."""
    record = session.get(RecordRow, record_id)
    workload_id = find_workload(session, key.workload)
    if record is None or record.workload_id != workload_id:
        raise DatabaseError(f"there is no record {record_id} of {key.op} {key.workload_hash}")
    # Where its board is judged just now, the record becomes suspect before it is copied or after.
    standing_of(session, record.board_class, record.board)
    session.refresh(record)
    identity = {
        "workload_id": workload_id,
        "target_id": ensure_target(session, key.target),
        "emulated": record.emulated,
        "module_hash": record.module_hash,
    }
    copied = {
        column.name: getattr(record, column.name)
        for column in RecordRow.__table__.columns
        if column.name not in ("id", "created_at", *identity)
    }
    values = {**copied, **identity, "verified": False, "source": Source.MIGRATION.value}
    is_new = insert_missing(session, RecordRow, values)
    adopted = session.execute(select(RecordRow.id).filter_by(**identity)).scalar_one()
    if is_new:
        insert_missing(session, OriginRow, {"record_id": adopted, "text": origin})
    return adopted
