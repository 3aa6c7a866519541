"""What workers did since one looked last, read by index from what is open and what is new."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Row, func, or_, select
from sqlalchemy.orm import Session

from tunebook.cache.boards.references import quarantined_by_class
from tunebook.cache.boards.suspects import suspects_by_class
from tunebook.cache.storage.database import Database
from tunebook.cache.storage.tables import (
    FINISHED,
    OPEN,
    BudgetRow,
    JobRow,
    RecordRow,
    RoundRow,
    SlotRow,
)

# How a trial that is no failure ended.
MEASURED = "measured"


@dataclass(frozen=True)
class TrialClass:
    """Trials on one class of boards that ended in one way: `measured`, or an error class."""

    board_class: str
    outcome: str


@dataclass(frozen=True)
class Activity:
    """What happened since the last look, and what is so now.

    Since then: `trials` that were charged, and the `round_seconds` that each finished round took.
    Now: rounds that are open, by whether a worker has them; open jobs by what they need next; the
    seconds that boards were ever used for; and by board class the boards in quarantine and the
    records that are suspect, where there are any.
    """

    trials: Mapping[TrialClass, int] = field(default_factory=dict)
    round_seconds: tuple[float, ...] = ()
    claimed_rounds: int = 0
    free_rounds: int = 0
    open_jobs: Mapping[str, int] = field(default_factory=dict)
    board_seconds: float = 0.0
    quarantined_boards: Mapping[str, int] = field(default_factory=dict)
    suspect_records: Mapping[str, int] = field(default_factory=dict)


class ActivityReader:
    """Looks at what workers do, and tells each trial and each round once.

    It counts from when it was made. A trial that arrives after its round has ended is not told.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._newest_round = 0
        # Of each round that was open at the last look: the slots that were told.
        self._told: dict[int, set[int]] = {}
        with database.reading() as session:
            self._newest_round = session.scalar(select(func.max(RoundRow.id))) or 0
            self._told = {one: set() for one in _granted_rounds(session)}
            for slot in _charged_slots(session, self._told):
                self._told[slot.round_id].add(slot.number)

    def read(self) -> Activity:
        """What happened since the last call. Not for several threads at once."""
        with self._database.reading() as session:
            rounds = _rounds(session, self._newest_round, self._told)
            slots = _charged_slots(session, [one.id for one in rounds])
            state = _state(session)
        new = [slot for slot in slots if slot.number not in self._told.get(slot.round_id, ())]
        told = {one.id: set[int]() for one in rounds if one.state == OPEN}
        for slot in slots:
            if slot.round_id in told:
                told[slot.round_id].add(slot.number)
        self._told = told
        self._newest_round = max([self._newest_round, *(one.id for one in rounds)])
        return Activity(
            trials=Counter(TrialClass(slot.board_class, slot.error or MEASURED) for slot in new),
            round_seconds=tuple(
                one.seconds for one in rounds if one.state == FINISHED and one.seconds is not None
            ),
            claimed_rounds=state.claimed_rounds,
            free_rounds=state.free_rounds,
            open_jobs=state.open_jobs,
            board_seconds=state.board_seconds,
            quarantined_boards=state.quarantined_boards,
            suspect_records=state.suspect_records,
        )


def _granted_rounds(session: Session) -> list[int]:
    wanted = select(RoundRow.id).where(RoundRow.state == OPEN, RoundRow.granted.is_not(None))
    return list(session.scalars(wanted))


def _rounds(
    session: Session, newest: int, open_before: Collection[int]
) -> list[Row[tuple[int, str, float | None]]]:
    """Rounds that are open and were granted trials, were open at the last look, or are new."""
    known = or_(
        RoundRow.id > newest,
        RoundRow.id.in_(open_before),
        (RoundRow.state == OPEN) & RoundRow.granted.is_not(None),
    )
    return list(session.execute(select(RoundRow.id, RoundRow.state, RoundRow.seconds).where(known)))


def _charged_slots(
    session: Session, rounds: Collection[int]
) -> list[Row[tuple[int, int, str, str | None]]]:
    wanted = (
        select(SlotRow.round_id, SlotRow.number, RecordRow.board_class, RecordRow.error)
        .join(RecordRow, RecordRow.id == SlotRow.record_id)
        .where(SlotRow.round_id.in_(rounds), SlotRow.charged)
    )
    return list(session.execute(wanted))


def _state(session: Session) -> Activity:
    claimed = RoundRow.worker.is_not(None)
    rounds = select(claimed, func.count()).where(RoundRow.state == OPEN).group_by(claimed)
    by_claim = {bool(one): count for one, count in session.execute(rounds)}
    jobs = select(JobRow.stage, func.count()).where(JobRow.state == OPEN).group_by(JobRow.stage)
    return Activity(
        claimed_rounds=by_claim.get(True, 0),
        free_rounds=by_claim.get(False, 0),
        open_jobs={stage: int(count) for stage, count in session.execute(jobs)},
        board_seconds=session.scalar(select(func.sum(BudgetRow.board_seconds))) or 0.0,
        quarantined_boards=quarantined_by_class(session),
        suspect_records=suspects_by_class(session),
    )
