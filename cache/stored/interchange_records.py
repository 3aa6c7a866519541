"""Workloads and records that come from other databases, and those that go to them."""

from __future__ import annotations

from collections.abc import Sequence

from tunebook.cache.keys import ScheduleKey, WorkloadKey
from tunebook.cache.records import Workload
from tunebook.cache.storage.database import Database
from tunebook.cache.stored import exported_records, imported_records
from tunebook.cache.stored.exported_records import ExportedRecord, ExportSurvey
from tunebook.cache.stored.imported_records import ImportedRecord


class InterchangeRecords:
    """Workloads and records that come from other databases, and those that go to them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def import_workloads(self, workloads: Sequence[Workload]) -> tuple[WorkloadKey, ...]:
        """Stores workloads that came without a model, and gives the keys they are stored under, in
        order. A program whose hash, compiler and buffers are stored keeps what is stored, its op
        above all. Saving a model that splits into one of them gives it the model's op and the
        model's own program. Raises ValueError for buffers that cannot be read."""
        with self._database.writing() as session:
            return imported_records.import_workloads(session, workloads)

    def import_records(self, records: Sequence[ImportedRecord]) -> int:
        """Stores trials of stored workloads that were made elsewhere; gives how many are new.

        They are of source `import`: never verified, served, charged or learnt from, and the
        measurement of the same module here takes their place. What is stored of the same module,
        or of the same trace unreplayed, stays as it is; a record that was imported unreplayed and
        now is replayed gets its module's hash. Importing twice changes nothing.
        """
        with self._database.writing() as session:
            return imported_records.import_records(session, records)

    def replayed_traces(self, key: ScheduleKey) -> frozenset[str]:
        """Hashes (`trace_hash`) of the traces of a key whose scheduled module is known: importing
        one of them again tells nothing new."""
        with self._database.reading() as session:
            return imported_records.replayed_traces(session, key)

    def export_survey(self, compiler: str, target: str | None = None) -> ExportSurvey:
        """What there is of a compiler's records, for one canonical target or all."""
        with self._database.reading() as session:
            return exported_records.export_survey(session, compiler, target)

    def exported_records(
        self,
        compiler: str,
        target: str | None = None,
        *,
        emulated: bool = False,
        after: int = 0,
        limit: int = 500,
    ) -> tuple[ExportedRecord, ...]:
        """A compiler's records in the order of their ids, from the first whose id is above `after`;
        with `emulated`, those of emulated boards too. None are left when it is empty."""
        with self._database.reading() as session:
            return exported_records.exported_records(
                session, compiler, target, emulated, after, limit
            )
