"""What the fleet's database says of a job: read by SQL, so that no code of ours judges itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import create_engine, text
from sqlalchemy.exc import SQLAlchemyError

from tunebook.cache.storage.database import parse_url

_MEASURED = """
    SELECT records.id, records.workload_id, records.target_id, records.emulated,
           records.module_hash, records.seconds, records.error, records.created_at
    FROM slots
    JOIN rounds ON rounds.id = slots.round_id JOIN records ON records.id = slots.record_id
    WHERE rounds.job_id = :job ORDER BY records.id
"""
_BUDGET = """
    SELECT budgets.trial_limit, budgets.granted, budgets.spent
    FROM budgets JOIN jobs ON jobs.budget_id = budgets.id WHERE jobs.id = :job
"""
_SLOTS = """
    SELECT count(*), count(slots.record_id), count(*) FILTER (WHERE slots.charged)
    FROM slots JOIN rounds ON rounds.id = slots.round_id WHERE rounds.job_id = :job
"""
_REPEATS = """
    SELECT count(*) FROM repeats JOIN rounds ON rounds.id = repeats.round_id
    WHERE rounds.job_id = :job
"""
_FILLED = "SELECT count(record_id) FROM slots WHERE round_id = ANY(:rounds)"
_OPEN = "SELECT count(*) FROM rounds WHERE id = ANY(:rounds) AND state = 'open'"
_REPEATS_OF = "SELECT count(*) FROM repeats WHERE record_id = ANY(:records)"
_SLOTS_OF_ONE_MODULE = """
    SELECT count(*) FROM (
        SELECT 1 FROM slots JOIN rounds ON rounds.id = slots.round_id
        WHERE slots.record_id IS NOT NULL
        GROUP BY rounds.workload_id, rounds.target_id, rounds.emulated, slots.module_hash
        HAVING count(*) > 1
    ) AS twice
"""
_UNVERIFIED = """
    SELECT count(*) FROM schedules JOIN records ON records.id = schedules.record_id
    WHERE NOT records.verified OR records.error IS NOT NULL
"""
_HELD = """
    SELECT rounds.worker, rounds.id, count(slots.number), count(slots.record_id)
    FROM rounds JOIN jobs ON jobs.id = rounds.job_id LEFT JOIN slots ON slots.round_id = rounds.id
    WHERE rounds.job_id = :job AND rounds.state = 'open' AND rounds.worker IS NOT NULL
      AND jobs.stage = 'search'
    GROUP BY rounds.worker, rounds.id
"""


@dataclass(frozen=True)
class HeldRound:
    """An open round that a worker holds, and how far it is."""

    worker: str
    id: int
    slots: int
    measured: int

    @property
    def is_searched(self) -> bool:
        return self.slots == 0

    @property
    def is_built(self) -> bool:
        """Its candidates are being built, and none was measured yet."""
        return self.slots > 0 and self.measured == 0

    @property
    def is_measured(self) -> bool:
        """Some of its candidates were measured, others not yet."""
        return 0 < self.measured < self.slots


@dataclass(frozen=True)
class BudgetNow:
    limit: int
    granted: int
    spent: int


@dataclass(frozen=True)
class SlotsNow:
    all: int
    filled: int
    charged: int


class FleetDatabase:
    """Questions, each on its own; all raise SQLAlchemyError while the server is away."""

    def __init__(self, url: str) -> None:
        self._engine = create_engine(parse_url(url), pool_pre_ping=True)

    def close(self) -> None:
        self._engine.dispose()

    def held_rounds(self, job: int) -> list[HeldRound]:
        """None while the server is away."""
        try:
            return [HeldRound(*row) for row in self._rows(_HELD, job=job)]
        except SQLAlchemyError:
            return []

    def measured(self, job: int) -> list[tuple[Any, ...]]:
        """The trials of a job that were committed, as they are stored."""
        return self._rows(_MEASURED, job=job)

    def budget(self, job: int) -> BudgetNow:
        return BudgetNow(*self._rows(_BUDGET, job=job)[0])

    def slots(self, job: int) -> SlotsNow:
        return SlotsNow(*self._rows(_SLOTS, job=job)[0])

    def filled(self, rounds: list[int]) -> int:
        """Trials of these rounds that have their result."""
        return self._number(_FILLED, rounds=rounds)

    def still_open(self, rounds: list[int]) -> int:
        return self._number(_OPEN, rounds=rounds)

    def repeats(self, job: int) -> int:
        """Results of a job's trials beyond the first of each."""
        return self._number(_REPEATS, job=job)

    def repeats_of(self, records: list[int]) -> int:
        """How often what was stored by then was measured again."""
        return self._number(_REPEATS_OF, records=records)

    def modules_measured_twice(self) -> int:
        """Scheduled modules that stand in more than one slot with a result."""
        return self._number(_SLOTS_OF_ONE_MODULE)

    def unverified_schedules(self) -> int:
        """Schedules that are served although nobody compared their output, or that failed."""
        return self._number(_UNVERIFIED)

    def _number(self, query: str, **values: Any) -> int:
        return int(self._rows(query, **values)[0][0])

    def _rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        with self._engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text(query), values)]
