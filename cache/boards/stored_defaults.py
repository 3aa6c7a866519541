"""What the targets of a board class have unless they say otherwise, as it is stored."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import select
from sqlalchemy.orm import Session

from tunebook.cache.boards.board_reports import ClassDefaults
from tunebook.cache.storage.identities import insert_missing, insert_or_update
from tunebook.cache.storage.revisions import SCHEDULES, bump
from tunebook.cache.storage.tables import BoardClassRow


def read_defaults(session: Session, board_class: str) -> ClassDefaults | None:
    """The defaults of a class; None where nobody has said any."""
    row = session.get(BoardClassRow, board_class)
    return None if row is None else _defaults(row)


def all_defaults(session: Session) -> dict[str, ClassDefaults]:
    """The defaults of every class that has some, by its name."""
    rows = session.scalars(select(BoardClassRow).order_by(BoardClassRow.name))
    return {row.name: _defaults(row) for row in rows}


def set_first_defaults(session: Session, board_class: str, defaults: ClassDefaults) -> None:
    """Sets the defaults of a class that has none."""
    if insert_missing(session, BoardClassRow, {"name": board_class, **asdict(defaults)}):
        _note_change(session)


def change_defaults(session: Session, board_class: str, defaults: ClassDefaults) -> None:
    """Sets the defaults of a class, whatever they were."""
    values = asdict(defaults)
    statement = insert_or_update(session, BoardClassRow, ("name",), lambda _: values)
    session.execute(statement.values(name=board_class, **values))
    _note_change(session)


def _note_change(session: Session) -> None:
    # Look-ups that name the class ask for other schedules from now on.
    bump(session, SCHEDULES)


def _defaults(row: BoardClassRow) -> ClassDefaults:
    return ClassDefaults(row.num_cores, row.mtriple, row.mcpu)
