"""Lists of what is stored, a page at a time, in an order that stays."""

from __future__ import annotations

from tunebook.cache.lists.listed_records import (
    DetailedRecord,
    ListedRecord,
    RecordFilter,
    detailed_record,
    listed_records,
)
from tunebook.cache.lists.listed_schedules import (
    ListedPeak,
    ListedSchedule,
    ListedTarget,
    ScheduleFilter,
    SchedulePosition,
    listed_peaks,
    listed_schedules,
    listed_target,
    listed_targets,
)
from tunebook.cache.storage.database import Database

__all__ = [
    "Catalogue",
    "DetailedRecord",
    "ListedPeak",
    "ListedRecord",
    "ListedSchedule",
    "ListedTarget",
    "RecordFilter",
    "ScheduleFilter",
    "SchedulePosition",
]


class Catalogue:
    """Lists of what is stored, a page at a time, in an order that stays.

    A page goes on where the one before it ended, by the place of its last item and not by counting:
    what is stored meanwhile moves nothing, so that none is shown twice or left out. Each page is a
    transaction of its own, and its reads go by an index.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def records(
        self, wanted: RecordFilter, *, before: int | None = None, limit: int = 50
    ) -> tuple[ListedRecord, ...]:
        """Records, the newest first, from the first whose id is below `before`."""
        with self._database.reading() as session:
            return listed_records(session, wanted, before, limit)

    def record(self, record_id: int) -> DetailedRecord:
        """One record with its trace. Raises NotFoundError where there is none of this id."""
        with self._database.reading() as session:
            return detailed_record(session, record_id)

    def schedules(
        self, wanted: ScheduleFilter, *, after: SchedulePosition | None = None, limit: int = 50
    ) -> tuple[ListedSchedule, ...]:
        """What is served, by workload (those stored first come first), target and kind of board."""
        with self._database.reading() as session:
            return listed_schedules(session, wanted, after, limit)

    def targets(self, *, after: int = 0, limit: int = 50) -> tuple[ListedTarget, ...]:
        """Targets that something was stored for, those stored first come first."""
        with self._database.reading() as session:
            return listed_targets(session, after, limit)

    def target(self, target_id: int) -> ListedTarget:
        """One target. Raises NotFoundError where there is none of this id."""
        with self._database.reading() as session:
            return listed_target(session, target_id)

    def board_peaks(self) -> tuple[ListedPeak, ...]:
        """The peaks that were measured, by board class and target."""
        with self._database.reading() as session:
            return listed_peaks(session)
