"""The slots of a round: candidates stored before they are measured, and their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ScalarSelect, select, update
from sqlalchemy.orm import Session

from tunebook.cache.errors import DatabaseError
from tunebook.cache.records import Candidate, Measurement
from tunebook.cache.rounds import beat
from tunebook.cache.stored_records import insert_record, measured_columns
from tunebook.cache.tables import OPEN, BudgetRow, JobRow, RecordRow, RepeatRow, RoundRow, SlotRow
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
    _charge_board(session, row.job_id, measurement.board_seconds)
    if row.state == OPEN and row.epoch == epoch:
        row.beat += 1
    if slot.record_id is not None:
        _add_repeat(session, slot.record_id, round_id, measurement)
        return StoredResult(slot.record_id, repeated=True)
    candidate = Candidate(slot.trace, slot.module_hash)
    record_id, is_new = insert_record(
        session, row.workload_id, row.target_id, candidate, measurement
    )
    slot.record_id = record_id
    if not is_new:
        _add_repeat(session, record_id, round_id, measurement)
        return StoredResult(record_id, repeated=True)
    slot.charged = _charge_trial(session, row)
    return StoredResult(record_id, repeated=False)


def _charge_board(session: Session, job_id: int, seconds: float) -> None:
    session.execute(
        update(BudgetRow)
        .where(BudgetRow.id == _budget_of(job_id))
        .values(board_seconds=BudgetRow.board_seconds + seconds)
    )


def _charge_trial(session: Session, row: RoundRow) -> bool:
    """Spends a trial of the round's grant. A closed round has given its grant back: its late
    result is charged anew where the budget still has room, and is a present otherwise."""
    budget = update(BudgetRow).where(BudgetRow.id == _budget_of(row.job_id))
    if row.state == OPEN:
        session.execute(budget.values(spent=BudgetRow.spent + 1))
        return True
    charged = session.execute(
        budget.where(BudgetRow.granted + 1 <= BudgetRow.trial_limit)
        .values(granted=BudgetRow.granted + 1, spent=BudgetRow.spent + 1)
        .returning(BudgetRow.id)
    ).first()
    return charged is not None


def _budget_of(job_id: int) -> ScalarSelect[Any]:
    return select(JobRow.budget_id).where(JobRow.id == job_id).scalar_subquery()


def _add_repeat(session: Session, record_id: int, round_id: int, measurement: Measurement) -> None:
    session.add(RepeatRow(record_id=record_id, round_id=round_id, **measured_columns(measurement)))
    session.flush()
