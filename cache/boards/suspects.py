"""Suspect records: measured by a board that had drifted by then, and not measured again since.

A suspect record that was verified may be served, since what it computes is right; its time is in
doubt, so another of its key is preferred, nothing is learnt from it, and it is measured again.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, func, or_, select, update
from sqlalchemy.orm import Session

from tunebook.cache.queue.budgets import charge_board
from tunebook.cache.records import ErrorClass, Measurement, Record
from tunebook.cache.storage.identities import CHUNK, KEY_COLUMNS, workload_key_of
from tunebook.cache.storage.revisions import SUSPECTS, bump
from tunebook.cache.storage.tables import (
    RecordRow,
    RepeatRow,
    RestatedRecordRow,
    RevisionRow,
    RoundRow,
    ScheduleRow,
    SlotRow,
    TargetRow,
    WorkloadRow,
)
from tunebook.cache.stored.board_standings import note_if_restated, standing_of
from tunebook.cache.stored.stored_records import (
    choose_served,
    lock_record,
    measured_columns,
    read_records,
)

_SERVES = and_(
    ScheduleRow.workload_id == RecordRow.workload_id,
    ScheduleRow.target_id == RecordRow.target_id,
    ScheduleRow.emulated == RecordRow.emulated,
    ScheduleRow.record_id == RecordRow.id,
)
_RESTATED = RecordRow.id.in_(select(RestatedRecordRow.record_id))


def mark_suspects(session: Session, board_class: str, name: str, good_record: int) -> int:
    """Marks what a board has measured since it last measured well, and chooses anew what is served
    where that is among it; gives how many records that are."""
    found = session.execute(
        select(RecordRow.id, RecordRow.workload_id).where(
            _measured_by(board_class, name),
            or_(RecordRow.id > good_record, _RESTATED),
            # Drift changes times, and not what is computed.
            or_(RecordRow.error.is_(None), RecordRow.error != ErrorClass.WRONG_OUTPUT.value),
        )
    ).all()
    # Whoever verifies a record locks its workload first.
    _lock_workloads(session, {row.workload_id for row in found})
    ids = sorted(row.id for row in found)
    for some in _chunks(ids):
        session.execute(update(RecordRow).where(RecordRow.id.in_(some)).values(suspect=True))
    for place in _served_among(session, ids):
        choose_served(session, place)
    forget_restated(session, board_class, name)
    if ids:
        bump(session, SUSPECTS)
    return len(ids)


def suspects_revision(session: Session) -> int:
    """See Boards.suspects_revision."""
    number = select(RevisionRow.number).where(RevisionRow.name == SUSPECTS)
    return session.scalar(number) or 0


def forget_restated(session: Session, board_class: str, name: str) -> None:
    """Forgets which older records a board has measured; they are judged like all else by now."""
    of_board = select(RecordRow.id).where(_RESTATED, _measured_by(board_class, name))
    session.execute(delete(RestatedRecordRow).where(RestatedRecordRow.record_id.in_(of_board)))


def suspect_targets(session: Session, board_class: str, compiler: str) -> tuple[str, ...]:
    """See Boards.suspect_targets."""
    targets = (
        select(TargetRow.text)
        .join(RecordRow, RecordRow.target_id == TargetRow.id)
        .join(WorkloadRow, WorkloadRow.id == RecordRow.workload_id)
        .where(_suspect_in(board_class), WorkloadRow.compiler == compiler)
        .distinct()
        .order_by(TargetRow.text)
    )
    return tuple(session.scalars(targets))


def suspects(
    session: Session, board_class: str, target: str, compiler: str, limit: int
) -> tuple[Record, ...]:
    """See Boards.suspects."""
    served = select(ScheduleRow.record_id).where(_SERVES).exists()
    wanted = (
        select(RecordRow.id)
        .join(WorkloadRow, WorkloadRow.id == RecordRow.workload_id)
        .join(TargetRow, TargetRow.id == RecordRow.target_id)
        .where(_suspect_in(board_class), WorkloadRow.compiler == compiler, TargetRow.text == target)
        .order_by(served.desc(), RecordRow.seconds.is_(None), RecordRow.seconds, RecordRow.id)
        .limit(limit)
    )
    return read_records(session, session.scalars(wanted).all())


def suspects_by_class(session: Session) -> dict[str, int]:
    """How many records are suspect, by the class of their boards; classes without any are left
    out."""
    counted = (
        select(RecordRow.board_class, func.count())
        .where(RecordRow.suspect)
        .group_by(RecordRow.board_class)
    )
    return {board_class: int(count) for board_class, count in session.execute(counted)}


def remeasured(session: Session, record_id: int, measurement: Measurement) -> bool:
    """See Boards.remeasured."""
    measured_in = _round_of(session, record_id)
    if measured_in is not None:
        charge_board(session, measured_in.job_id, measurement.board_seconds)
    # In the order in which whoever stores a result locks: the budget, the board, the workload.
    standing = standing_of(session, measurement.board_class, measurement.board)
    record = lock_record(session, record_id)
    session.add(
        RepeatRow(
            record_id=record_id,
            round_id=None if measured_in is None else measured_in.id,
            **measured_columns(measurement),
        )
    )
    session.flush()
    lost = measurement.error is ErrorClass.BOARD_LOST
    if lost or standing.in_quarantine or not record.suspect:
        return False
    verified = {} if measurement.error is None else {"verified": False}
    session.execute(
        update(RecordRow)
        .where(RecordRow.id == record_id)
        .values(**measured_columns(measurement), suspect=False, **verified)
    )
    note_if_restated(session, record_id, standing)
    choose_served(session, record)
    return True


def _round_of(session: Session, record_id: int) -> Any | None:
    """The round that measured a record, through the rounds of its workload: slots are many, and in
    no index by their records."""
    return session.execute(
        select(RoundRow.id, RoundRow.job_id)
        .join(
            RecordRow,
            and_(
                RoundRow.workload_id == RecordRow.workload_id,
                RoundRow.target_id == RecordRow.target_id,
                RoundRow.emulated == RecordRow.emulated,
            ),
        )
        .join(SlotRow, and_(SlotRow.round_id == RoundRow.id, SlotRow.record_id == RecordRow.id))
        .where(RecordRow.id == record_id)
        .order_by(RoundRow.id)
        .limit(1)
    ).one_or_none()


def _lock_workloads(session: Session, ids: Set[int]) -> None:
    """One after the other by their keys, as whoever saves a model takes them."""
    keys = {
        workload_key_of(row): row.id
        for some in _chunks(sorted(ids))
        for row in session.execute(
            select(WorkloadRow.id, *KEY_COLUMNS).where(WorkloadRow.id.in_(some))
        )
    }
    for key in sorted(keys):
        session.execute(select(WorkloadRow.id).where(WorkloadRow.id == keys[key]).with_for_update())


def _served_among(session: Session, ids: Sequence[int]) -> list[Any]:
    places = select(RecordRow.workload_id, RecordRow.target_id, RecordRow.emulated).join(
        ScheduleRow, _SERVES
    )
    return [
        place
        for some in _chunks(ids)
        for place in session.execute(places.where(RecordRow.id.in_(some)))
    ]


def _measured_by(board_class: str, name: str) -> ColumnElement[bool]:
    return and_(RecordRow.board_class == board_class, RecordRow.board == name)


def _suspect_in(board_class: str) -> ColumnElement[bool]:
    return and_(RecordRow.suspect, RecordRow.board_class == board_class)


def _chunks(ids: Sequence[int]) -> list[Sequence[int]]:
    return [ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK)]
