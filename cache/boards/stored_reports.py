"""What agents report, as it is stored: the last report of each board."""

from __future__ import annotations

from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tunebook.cache.boards.board_reports import BoardReport, BoardState, is_silent
from tunebook.cache.storage.identities import insert_or_update
from tunebook.cache.storage.moments import database_now
from tunebook.cache.storage.tables import BoardRow, RecordRow

_LISTS = ("features", "throttled")
_FIELDS = frozenset(one.name for one in fields(BoardReport))


def store_report(session: Session, board_class: str, name: str, report: BoardReport) -> str:
    """Stores a board's report; gives why the board is in quarantine, empty where it is not."""
    statement = insert_or_update(
        session,
        BoardRow,
        ("board_class", "name"),
        lambda new: {"report": new.report, "reported_at": new.reported_at},
    ).returning(BoardRow.quarantine)
    values = {
        "board_class": board_class,
        "name": name,
        "report": asdict(report),
        "reported_at": database_now(session),
    }
    return str(session.connection().execute(statement.values(**values)).scalar_one())


def read_boards(session: Session, board_class: str | None = None) -> tuple[BoardState, ...]:
    """The boards that are known, of one class or of all, by class and name."""
    statement = select(BoardRow).order_by(BoardRow.board_class, BoardRow.name)
    suspects = (
        select(RecordRow.board_class, RecordRow.board, func.count())
        .where(RecordRow.suspect)
        .group_by(RecordRow.board_class, RecordRow.board)
    )
    if board_class is not None:
        statement = statement.where(BoardRow.board_class == board_class)
        suspects = suspects.where(RecordRow.board_class == board_class)
    counts = {(row[0], row[1]): row[2] for row in session.execute(suspects)}
    moment = database_now(session)
    return tuple(
        _state(row, moment, counts.get((row.board_class, row.name), 0))
        for row in session.scalars(statement)
    )


def _state(row: BoardRow, moment: datetime, suspect_records: int) -> BoardState:
    return BoardState(
        board_class=row.board_class,
        name=row.name,
        report=_report(row.report) if row.report else None,
        reported_at=row.reported_at,
        reference_seconds=row.reference_seconds,
        reference_spread=row.reference_spread,
        measured_at=row.measured_at,
        quarantine=row.quarantine,
        quarantined_at=row.quarantined_at,
        suspect_records=suspect_records,
        silent=row.reported_at is not None and is_silent(row.reported_at, moment),
    )


def _report(stored: dict[str, Any]) -> BoardReport:
    """A stored report; fields that another version knew are left out."""
    known = {name: value for name, value in stored.items() if name in _FIELDS}
    for name in _LISTS:
        known[name] = tuple(known.get(name, ()))
    return BoardReport(**known)
