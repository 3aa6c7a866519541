"""How the board stands that measured something: whether what it measures can be believed."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from tunebook.cache.storage.identities import insert_missing
from tunebook.cache.storage.tables import BoardRow, RestatedRecordRow


@dataclass(frozen=True)
class BoardStanding:
    """`good_record` is the newest record there was when the board last measured its reference well,
    0 where it never did."""

    in_quarantine: bool
    good_record: int


_UNKNOWN = BoardStanding(in_quarantine=False, good_record=0)


def standing_of(session: Session, board_class: str, board: str) -> BoardStanding:
    """How a board stands that measured something, until the end of the transaction: whoever judges
    it waits so long. To be asked before anything of a record or its workload is written, which is
    the order in which whoever judges locks."""
    if not board:
        return _UNKNOWN
    found = session.execute(
        select(BoardRow.quarantine, BoardRow.good_record)
        .where(BoardRow.board_class == board_class, BoardRow.name == board)
        .with_for_update(read=True)
    ).one_or_none()
    return _UNKNOWN if found is None else BoardStanding(found.quarantine != "", found.good_record)


def note_if_restated(session: Session, record_id: int, standing: BoardStanding) -> None:
    """Notes a record whose id is older than what its board measured of it just now: an imported one
    that was measured here, one that was measured again, or one whose id another had before (SQLite
    gives the id of a deleted row once more)."""
    if record_id <= standing.good_record:
        insert_missing(session, RestatedRecordRow, {"record_id": record_id})
