"""Measurements of boards' reference kernels, and what follows from them: see drift.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, func, select
from sqlalchemy.orm import Session

from tunebook.cache.board_names import board_address
from tunebook.cache.boards.board_reports import SILENT_SECONDS, is_silent
from tunebook.cache.boards.drift import (
    BASE_RUNS,
    NEWEST_RUNS,
    Baseline,
    baseline_of,
    describe_drift,
    is_doubtful,
    judge,
)
from tunebook.cache.boards.suspects import forget_restated, mark_suspects
from tunebook.cache.errors import NotFoundError, UsageError
from tunebook.cache.storage.announcements import announce_work
from tunebook.cache.storage.identities import insert_missing
from tunebook.cache.storage.moments import database_now
from tunebook.cache.storage.tables import BoardRow, RecordRow, ReferenceRunRow

# A board of which too little is known to judge it is measured so many times as often.
_LEARNING = 10
# Of each board so many of its newest measurements are kept, beside those that its baseline is of.
_KEPT_RUNS = 1000


@dataclass(frozen=True)
class NotedReference:
    """What a measurement of a reference came to. `quarantine` is the reason why the board is in
    quarantine now (empty: it is not), `changed` whether it was not before, or was; `suspects` how
    many records became suspect by it."""

    quarantine: str
    changed: bool
    suspects: int


def reference_due(session: Session, board_class: str, name: str, every_seconds: float) -> bool:
    """See Boards.reference_due."""
    board = session.get(BoardRow, (board_class, name))
    if board is None or board.measured_at is None:
        return True
    if is_doubtful(
        _newest_within(session, board_class, name), in_quarantine=board.quarantine != ""
    ):
        return True
    every = every_seconds / _LEARNING if board.reference_seconds is None else every_seconds
    age = (database_now(session) - board.measured_at).total_seconds()
    # One from the future is of a clock that was set back since.
    return not 0 <= age < every


def note_reference(
    session: Session,
    board_class: str,
    name: str,
    run_seconds: Sequence[float],
    state: Mapping[str, Any],
) -> NotedReference:
    """See Boards.note_reference."""
    seconds = median(run_seconds)
    board = _locked(session, board_class, name)
    was_in_quarantine = board.quarantine != ""
    judged_by = _baseline(session, board_class, name)
    judgement = judge(
        judged_by,
        seconds,
        before=_newest_within(session, board_class, name),
        in_quarantine=was_in_quarantine,
    )
    board.measured_at = database_now(session)
    session.add(
        ReferenceRunRow(
            board_class=board_class,
            board=name,
            seconds=seconds,
            run_seconds=list(run_seconds),
            within=judgement.within,
            board_state=dict(state),
            created_at=board.measured_at,
        )
    )
    session.flush()
    _forget_old(session, board_class, name)
    baseline = _baseline(session, board_class, name)
    board.reference_seconds = None if baseline is None else baseline.seconds
    board.reference_spread = None if baseline is None else baseline.spread
    suspects = 0
    if judgement.in_quarantine and not was_in_quarantine and judged_by is not None:
        told = {"throttled": board.report.get("throttled"), **state}
        board.quarantine = describe_drift(judged_by, seconds, told)
        board.quarantined_at = board.measured_at
        suspects = mark_suspects(session, board_class, name, board.good_record)
    elif judgement.within and not judgement.in_quarantine:
        _is_well(session, board)
    changed = (board.quarantine != "") != was_in_quarantine
    if changed:
        # Others measure its suspects again, or it has work itself once more.
        announce_work(session)
    return NotedReference(board.quarantine, changed, suspects)


def begin_baseline(session: Session, board_class: str, name: str) -> None:
    """See Boards.begin_baseline."""
    board = _known(session, board_class, name)
    session.execute(delete(ReferenceRunRow).where(_runs_of(board_class, name)))
    board.reference_seconds = board.reference_spread = board.measured_at = None
    _is_well(session, board)


def forget_board(session: Session, board_class: str, name: str) -> None:
    """See Boards.forget."""
    board = _known(session, board_class, name)
    if board.reported_at is not None and not is_silent(board.reported_at, database_now(session)):
        raise UsageError(
            f"the board {board_address(board_class, name)} reports, and would be back at once; "
            f"stop its `tunebook board` first, and wait {SILENT_SECONDS:g} s"
        )
    session.execute(delete(ReferenceRunRow).where(_runs_of(board_class, name)))
    forget_restated(session, board_class, name)
    session.delete(board)


def quarantine(session: Session, board_class: str, name: str) -> str:
    """See Boards.quarantine."""
    found = select(BoardRow.quarantine).filter_by(board_class=board_class, name=name)
    return session.scalar(found) or ""


def quarantined(session: Session, board_class: str) -> frozenset[str]:
    """See Boards.quarantined."""
    names = select(BoardRow.name).where(
        BoardRow.board_class == board_class, BoardRow.quarantine != ""
    )
    return frozenset(session.scalars(names))


def quarantined_by_class(session: Session) -> dict[str, int]:
    """How many boards of each class are in quarantine; classes without any are left out."""
    counted = (
        select(BoardRow.board_class, func.count())
        .where(BoardRow.quarantine != "")
        .group_by(BoardRow.board_class)
    )
    return {board_class: int(count) for board_class, count in session.execute(counted)}


def _locked(session: Session, board_class: str, name: str) -> BoardRow:
    """The board's row, made where there is none. Whoever stores what the board measured waits: it
    belongs before this measurement of its reference, or after it."""
    while True:
        insert_missing(session, BoardRow, {"board_class": board_class, "name": name, "report": {}})
        board = _find_locked(session, board_class, name)
        if board is not None:  # else it was forgotten between the two
            return board


def _known(session: Session, board_class: str, name: str) -> BoardRow:
    """A board's row, locked. Raises NotFoundError."""
    board = _find_locked(session, board_class, name)
    if board is None:
        address = board_address(board_class, name)
        raise NotFoundError(f"there is no board {address}; `tunebook boards` lists them")
    return board


def _find_locked(session: Session, board_class: str, name: str) -> BoardRow | None:
    found = select(BoardRow).filter_by(board_class=board_class, name=name).with_for_update()
    return session.execute(found).scalar_one_or_none()


def _is_well(session: Session, board: BoardRow) -> None:
    """All that it measured until now is good."""
    board.quarantine, board.quarantined_at = "", None
    board.good_record = session.scalar(select(func.max(RecordRow.id))) or 0
    forget_restated(session, board.board_class, board.name)


def _baseline(session: Session, board_class: str, name: str) -> Baseline | None:
    good = select(ReferenceRunRow.seconds).where(
        _runs_of(board_class, name), ReferenceRunRow.within
    )
    first = session.scalars(good.order_by(ReferenceRunRow.id).limit(BASE_RUNS)).all()
    newest = session.scalars(good.order_by(ReferenceRunRow.id.desc()).limit(NEWEST_RUNS)).all()
    return baseline_of(first, newest)


def _newest_within(session: Session, board_class: str, name: str) -> bool | None:
    newest: bool | None = session.scalars(
        select(ReferenceRunRow.within)
        .where(_runs_of(board_class, name))
        .order_by(ReferenceRunRow.id.desc())
        .limit(1)
    ).first()
    return newest


def _forget_old(session: Session, board_class: str, name: str) -> None:
    """Between those of the baseline, the first of which all were good, and the newest ones."""
    ids = select(ReferenceRunRow.id).where(_runs_of(board_class, name))
    newest = ids.order_by(ReferenceRunRow.id.desc()).offset(_KEPT_RUNS).limit(1)
    first = (
        ids.where(ReferenceRunRow.within)
        .order_by(ReferenceRunRow.id)
        .offset(BASE_RUNS - 1)
        .limit(1)
    )
    session.execute(
        delete(ReferenceRunRow).where(
            _runs_of(board_class, name),
            ReferenceRunRow.id <= newest.scalar_subquery(),
            ReferenceRunRow.id > first.scalar_subquery(),
        )
    )


def _runs_of(board_class: str, name: str) -> ColumnElement[bool]:
    return and_(ReferenceRunRow.board_class == board_class, ReferenceRunRow.board == name)
