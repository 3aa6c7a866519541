"""The peaks of board classes, measured once for each target."""

from __future__ import annotations

from sqlalchemy import delete
from sqlalchemy.orm import Session

from tunebook.cache.storage.identities import insert_missing
from tunebook.cache.storage.tables import BoardPeakRow
from tunebook.cache.work import BoardPeak


def board_peak(session: Session, board_class: str, target: str) -> BoardPeak | None:
    row = session.get(BoardPeakRow, (board_class, target))
    return None if row is None else BoardPeak(row.flops_per_second, row.bytes_per_second)


def save_board_peak(session: Session, board_class: str, target: str, peak: BoardPeak) -> None:
    identity = {"board_class": board_class, "target": target}
    session.execute(delete(BoardPeakRow).filter_by(**identity))
    values = {
        "flops_per_second": peak.flops_per_second,
        "bytes_per_second": peak.bytes_per_second,
    }
    insert_missing(session, BoardPeakRow, {**identity, **values})
