"""The slots of a round: candidates stored before they are measured, and their results."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from tunebook.cache.errors import DatabaseError
from tunebook.cache.queue.budgets import charge, charge_anew, charge_board
from tunebook.cache.queue.rounds import beat, candidate_of
from tunebook.cache.records import Candidate, Measurement, Source
from tunebook.cache.storage.tables import OPEN, RecordRow, RepeatRow, RoundRow, SlotRow
from tunebook.cache.stored.stored_records import insert_record, measured_columns
from tunebook.cache.work import Slot, StoredResult


def store_candidates(
    session: Session, round_id: int, epoch: int, candidates: Sequence[Candidate]
) -> tuple[Slot, ...]:
    """See Store.store_candidates."""
    # Holding the lease is moving its beat: no successor can number slots at the same time.
    beat(session, round_id, epoch)
    row = session.execute(select(RoundRow).where(RoundRow.id == round_id)).scalar_one()
    taken = set(session.scalars(select(SlotRow.module_hash).where(SlotRow.round_id == round_id)))
    number = len(taken)
    room = (row.granted or 0) - number
    taken |= _measured_among(session, row, candidates)
    slots: list[Slot] = []
    for candidate in candidates:
        if candidate.module_hash in taken or len(slots) >= room:
            continue
        taken.add(candidate.module_hash)
        slots.append(Slot(number + len(slots), candidate, None))
    session.add_all(
        SlotRow(
            round_id=round_id,
            number=slot.number,
            module_hash=slot.candidate.module_hash,
            trace=slot.candidate.trace,
            source=slot.candidate.source.value,
            origin=slot.candidate.origin,
        )
        for slot in slots
    )
    session.flush()
    return tuple(slots)


def _measured_among(session: Session, row: RoundRow, candidates: Sequence[Candidate]) -> set[str]:
    return set(
        session.scalars(
            select(RecordRow.module_hash).where(
                RecordRow.workload_id == row.workload_id,
                RecordRow.target_id == row.target_id,
                RecordRow.emulated == row.emulated,
                RecordRow.source != Source.IMPORT.value,
                RecordRow.module_hash.in_({candidate.module_hash for candidate in candidates}),
            )
        )
    )


def store_result(
    session: Session, round_id: int, epoch: int, number: int, measurement: Measurement
) -> StoredResult:
    """See Store.store_result."""
    row = session.execute(
        select(RoundRow).where(RoundRow.id == round_id).with_for_update()
    ).scalar_one_or_none()
    slot = session.execute(
        select(SlotRow)
        .where(SlotRow.round_id == round_id, SlotRow.number == number)
        .with_for_update()
    ).scalar_one_or_none()
    if row is None or slot is None:
        raise DatabaseError(f"round {round_id} has no slot {number} to store a result in")
    charge_board(session, row.job_id, measurement.board_seconds)
    if row.state == OPEN and row.epoch == epoch:
        row.beat += 1
    if slot.record_id is not None:
        _add_repeat(session, slot.record_id, round_id, measurement)
        return StoredResult(slot.record_id, repeated=True)
    record_id, is_new = insert_record(
        session, row.workload_id, row.target_id, candidate_of(slot), measurement
    )
    slot.record_id = record_id
    if not is_new:
        _add_repeat(session, record_id, round_id, measurement)
        return StoredResult(record_id, repeated=True)
    if row.state == OPEN:
        charge(session, row.job_id)
        slot.charged = True
    else:
        # A closed round has given its grant back: a late result is a present where none is left.
        slot.charged = charge_anew(session, row.job_id)
    return StoredResult(record_id, repeated=False)


def _add_repeat(session: Session, record_id: int, round_id: int, measurement: Measurement) -> None:
    session.add(RepeatRow(record_id=record_id, round_id=round_id, **measured_columns(measurement)))
    session.flush()
