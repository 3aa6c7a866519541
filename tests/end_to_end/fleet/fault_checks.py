"""What holds after every fault, and the line of the table that says so."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from asking_clients import AskedCounts
from fleet_database import BudgetNow, SlotsNow
from running_fleet import BOARDS, Fleet
from sqlalchemy.exc import SQLAlchemyError

TRIALS = 18


@dataclass(frozen=True)
class FaultLine:
    """A line of the table of faults: seconds from the fault until the next trial was stored of what
    was worked on then (of the rounds that a worker held, where it was one), and from the job's end
    until all boards were free; and the look-ups from the fault until then, of
    which those that were mended by another attempt took so many seconds together."""

    fault: str
    trials: int
    stored_before: int
    repeated: int
    recovered_after: float
    boards_free_after: float
    look_ups: int
    retried: int
    mended_within: float
    failed: int

    def as_property(self) -> tuple[str, tuple[str, dict[str, Any]]]:
        """As pytest hands it on, from process to process."""
        line = {name.replace("_", " "): value for name, value in asdict(self).items()}
        return "table", ("faults of a fleet; times in seconds", line)


class WatchedJob:
    """A job during which a fault is made; `check` is for when it was mended."""

    def __init__(self, fleet: Fleet, model: Path, fault: str) -> None:
        self._fleet = fleet
        self._fault = fault
        self.id = fleet.submit(model, TRIALS, fault)

    @property
    def is_measured(self) -> bool:
        """Whether all of its trials have their result."""
        return self._fleet.database.slots(self.id).filled == TRIALS

    def struck(self, worker: str | None = None) -> None:
        """The fault is made right after this; it happens to this worker, if to any."""
        database = self._fleet.database
        held = database.held_rounds(self.id)
        self._rounds = [one.id for one in held if worker in (None, one.worker)]
        self._filled = database.filled(self._rounds)
        self._before = database.measured(self.id)
        self._asked = self._fleet.asked()
        self._at = time.monotonic()

    def recovered(self) -> None:
        """Returns once another trial was stored of what was worked on."""
        self._fleet.until(self._goes_on, "what was worked on goes on")
        self._recovered_after = time.monotonic() - self._at

    def check(self) -> FaultLine:
        """Waits for the job's end, and asserts what has to hold then."""
        fleet, database = self._fleet, self._fleet.database
        job = fleet.ended(self.id)
        assert (job["state"], job["reason"]) == ("done", "trials"), job["log"]
        self._check_trials()
        assert database.unverified_schedules() == 0
        ended = time.monotonic()
        fleet.until(fleet.all_boards_are_free, "no board is left busy")
        boards_free_after = time.monotonic() - ended
        fleet.all_are_answered()
        asked = fleet.asked().since(self._asked)
        assert asked.failed == 0, fleet.faults_of_look_ups()
        return self._line(asked, boards_free_after)

    def _check_trials(self) -> None:
        database = self._fleet.database
        after = database.measured(self.id)
        assert set(self._before) <= set(after), "what was committed is as it was"
        assert len({row[1:5] for row in after}) == len(after) == TRIALS, "each is stored once"
        assert database.modules_measured_twice() == 0
        assert database.slots(self.id) == SlotsNow(TRIALS, TRIALS, TRIALS)
        assert database.budget(self.id) == BudgetNow(TRIALS, TRIALS, TRIALS)
        assert database.repeats_of([row[0] for row in self._before]) == 0
        # A board runs one trial at a time.
        assert database.repeats(self.id) <= len(BOARDS), "only what was in flight was repeated"

    def _goes_on(self) -> bool:
        database = self._fleet.database
        try:
            if not self._rounds:
                # The fault may have come when there was nothing left to measure.
                return len(database.measured(self.id)) > len(self._before) or self.is_measured
            # All may have been measured by then, and what is left is to verify the best.
            is_over = database.still_open(self._rounds) == 0
            return is_over or database.filled(self._rounds) > self._filled
        except SQLAlchemyError:
            return False

    def _line(self, asked: AskedCounts, boards_free_after: float) -> FaultLine:
        return FaultLine(
            fault=self._fault,
            trials=TRIALS,
            stored_before=len(self._before),
            repeated=self._fleet.database.repeats(self.id),
            recovered_after=round(self._recovered_after, 1),
            boards_free_after=round(boards_free_after, 1),
            look_ups=asked.answered,
            retried=asked.retried,
            mended_within=round(asked.mending, 1),
            failed=asked.failed,
        )
