"""What was looked up, by minute, target, pipeline and outcome, and what was missed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tunebook.cache.statistics import lookup_counts, missed_keys
from tunebook.cache.statistics.coverage import Coverage, coverage
from tunebook.cache.statistics.lookup_counts import HitRate, LookupCell, Window
from tunebook.cache.statistics.missed_keys import MissedGroup, MissedKey, MissedKeyFilter
from tunebook.cache.storage.database import Database


@dataclass(frozen=True)
class LookupBatch:
    """What was counted since the last batch."""

    counts: Mapping[LookupCell, int] = field(default_factory=dict)
    missed: Sequence[MissedKey] = ()


class LookupStatistics:
    """What was looked up, by minute, target, pipeline and outcome, and what was missed.

    - A batch is added once and whole, or not at all.
    - Counts are exact, and kept a little longer than the longest window shows.
    - Of the misses themselves as many are kept as missed_keys.py says, those missed last.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, batch: LookupBatch) -> None:
        """Adds to the counts, and notes the misses as they are explained now."""
        with self._database.writing() as session:
            lookup_counts.add_counts(session, batch.counts)
            missed_keys.add_missed_keys(session, batch.missed)

    def tidy(self, minute: int) -> None:
        """Removes counts that no window shows any more in this minute (from 1970), and keeps those
        of more than two days ago by the hour."""
        with self._database.writing() as session:
            lookup_counts.forget_old_counts(session, minute)
            lookup_counts.coarsen_old_counts(session, minute)

    def pipelines(self, limit: int) -> tuple[str, ...]:
        """The names of pipelines that were counted by name, those that came last first."""
        with self._database.reading() as session:
            return lookup_counts.counted_pipelines(session, limit)

    def hit_rate(
        self, target: str, window: Window, now: datetime, pipeline: str | None = None
    ) -> HitRate:
        """Of one canonical target; of one pipeline only, where given."""
        with self._database.reading() as session:
            (found,) = lookup_counts.hit_rates(session, window, now, target, pipeline)
            return found

    def hit_rates(self, window: Window, now: datetime) -> tuple[HitRate, ...]:
        """Of every target that was looked up in the window, the lowest rate first."""
        with self._database.reading() as session:
            return lookup_counts.hit_rates(session, window, now, None, None)

    def coverage(self) -> Mapping[str, Coverage]:
        """By target, how much of what builds of the stored models would look up is there now."""
        with self._database.reading() as session:
            return coverage(session)

    def missed_groups(self, wanted: MissedKeyFilter) -> tuple[MissedGroup, ...]:
        """The misses by their causes, the cause that was met last first; of very many, the newest
        misses only."""
        with self._database.reading() as session:
            return missed_keys.missed_groups(session, wanted)

    def missed_keys(self, wanted: MissedKeyFilter, limit: int) -> tuple[MissedKey, ...]:
        """The newest misses, each key of a pipeline once."""
        with self._database.reading() as session:
            return missed_keys.missed_keys(session, wanted, limit)
