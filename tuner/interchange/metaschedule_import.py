"""Takes records out of MetaSchedule's database files into the store.

The file of records is read twice, line by line: first to see which traces are worth replaying,
then to store. To replay 100,000 traces takes half an hour, so only the fastest of each workload on
each target are replayed: they are what a recovery and a search begin with. The others are stored
as they are, under the hash of their trace; whatever uses one of them replays it then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from statistics import median

from tunebook.cache.errors import UntrustedTraceError
from tunebook.cache.exchange.interchange import (
    BadLineError,
    FileRecord,
    Line,
    find_files,
    line_at,
    parse_record,
)
from tunebook.cache.exchange.skipped_lines import SkipCounts, SkippedLines, SkipReason
from tunebook.cache.keys import ScheduleKey, WorkloadKey
from tunebook.cache.store import Store
from tunebook.cache.stored.imported_records import ImportedRecord, trace_hash
from tunebook.cache.targets import Target
from tunebook.cache.untrusted.traces import check_trace
from tunebook.tuner.compiler import compiler_text
from tunebook.tuner.interchange.fastest_traces import FastestTraces
from tunebook.tuner.interchange.file_progress import FileProgress, Tell, told_lines
from tunebook.tuner.interchange.foreign_programs import (
    ForeignPrograms,
    Refused,
    Replayed,
    ReplayTrace,
)
from tunebook.tuner.interchange.import_programs import import_programs
from tunebook.tuner.interchange.import_targets import ImportTargets, RefusedTarget

# Of each workload on each target so many traces are replayed.
REPLAYED = 32
_BATCH = 1000


@dataclass(frozen=True)
class ImportReport:
    """What was in the files and what became of it.

    `workloads` and `records` count what can be used, `new_records` those that were not stored
    before, `failures` those that failed, `replayed` the traces that were replayed now.
    """

    compiler: str
    targets: tuple[str, ...]
    workloads: int
    records: int
    new_records: int
    failures: int
    replayed: int
    skipped: tuple[SkippedLines, ...]


def import_database(
    folder: Path,
    store: Store,
    foreign: ForeignPrograms,
    *,
    target: Target | None = None,
    tell: Tell = lambda _: None,
) -> ImportReport:
    """Imports the two files of a folder, of one target only where it is given.

    Everything in them is untrusted: programs and traces are held against the lists of what is ever
    loaded and replayed, and tried in processes that may die; what fails is left out and counted. A
    second import of the same files changes nothing. Raises InterchangeError where the files cannot
    be read as a whole, and DatabaseError; what was stored until then stays, and the same import
    goes on from there.
    """
    files = find_files(folder, compiler_text())
    skipped = SkipCounts()
    workloads = import_programs(files.workloads, store, foreign, skipped, tell)
    records = _Records(files.records, workloads, store, ImportTargets(target), tell)
    records.find_fastest()
    replayed = records.replay_fastest(foreign)
    counts = records.store(skipped)
    return ImportReport(
        compiler=compiler_text(),
        targets=tuple(sorted({key.target for key in records.places})),
        workloads=sum(key is not None for key in workloads),
        records=counts.records,
        new_records=counts.new,
        failures=counts.failures,
        replayed=replayed,
        skipped=tuple(skipped),
    )


class _SkippedError(Exception):
    """A line that is left out, and why."""

    def __init__(self, reason: SkipReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass
class _Place:
    """What is known of the traces of a workload on a target, by their hashes: those whose modules
    are stored, those worth replaying, and what came of that."""

    stored: frozenset[str]
    fastest: FastestTraces = field(default_factory=lambda: FastestTraces(REPLAYED))
    replayed: dict[str, Replayed | Refused] = field(default_factory=dict)


@dataclass
class _Counts:
    records: int = 0
    new: int = 0
    failures: int = 0


class _Records:
    """The file of records; its steps are called in the order in which they stand here."""

    def __init__(
        self,
        path: Path,
        workloads: list[WorkloadKey | None],
        store: Store,
        targets: ImportTargets,
        tell: Tell,
    ) -> None:
        self.places: dict[ScheduleKey, _Place] = {}
        self._path = path
        self._workloads = workloads
        self._store = store
        self._targets = targets
        self._tell = tell

    def find_fastest(self) -> None:
        """The first reading: notes where the traces are that are worth replaying."""
        for line in told_lines(self._path, "reading records", self._tell):
            try:
                key, record = self._read(line)
            except _SkippedError:
                # Counted at the second reading.
                continue
            place = self._place(key)
            if record.run_seconds:
                name = trace_hash(record.trace)
                place.fastest.add(name, median(record.run_seconds), line.offset)

    def replay_fastest(self, foreign: ForeignPrograms) -> int:
        """Replays those whose modules are not stored; gives how many did replay."""
        chosen = [
            (key, offset) for key in self.places for offset in self.places[key].fastest.offsets
        ]
        asked: list[tuple[_Place, str]] = []
        messages = self._messages(chosen, asked)
        count = 0
        for position, answer in enumerate(foreign.answers(messages)):
            self._tell(FileProgress("replaying traces", position, len(chosen)))
            place, name = asked[position]
            assert isinstance(answer, Replayed | Refused)
            place.replayed[name] = answer
            count += isinstance(answer, Replayed)
        return count

    def _messages(
        self, chosen: list[tuple[ScheduleKey, int]], asked: list[tuple[_Place, str]]
    ) -> Iterator[ReplayTrace]:
        # The traces of a workload come one after the other.
        workload = lru_cache(maxsize=1)(self._store.workload)
        with self._path.open("rb") as file:
            for key, offset in chosen:
                record = parse_record(line_at(file, offset))
                name = trace_hash(record.trace)
                if name not in self.places[key].stored:
                    asked.append((self.places[key], name))
                    yield ReplayTrace(workload(key.workload).tir, record.trace)

    def store(self, skipped: SkipCounts) -> _Counts:
        """The second reading: stores what can be used, and counts the rest."""
        counts = _Counts()
        batch: list[ImportedRecord] = []
        for line in told_lines(self._path, "storing records", self._tell):
            try:
                key, record = self._read(line)
                name = self._checked(key, record)
            except _SkippedError as error:
                skipped.add(self._path.name, line.number, error.reason, str(error))
                continue
            counts.records += 1
            counts.failures += not record.run_seconds
            place = self._place(key)
            if name not in place.stored:
                module = place.replayed.get(name)
                module_hash = module.module_hash if isinstance(module, Replayed) else None
                batch.append(ImportedRecord(key, record.trace, record.run_seconds, module_hash))
            if len(batch) == _BATCH:
                counts.new += self._store.interchange.import_records(batch)
                batch.clear()
        counts.new += self._store.interchange.import_records(batch)
        return counts

    def _checked(self, key: ScheduleKey, record: FileRecord) -> str:
        """The hash of a trace that is on the lists and was not found not to replay."""
        try:
            check_trace(record.trace)
        except UntrustedTraceError as error:
            raise _SkippedError(SkipReason.UNTRUSTED_TRACE, str(error)) from None
        name = trace_hash(record.trace)
        outcome = self._place(key).replayed.get(name)
        if isinstance(outcome, Refused):
            raise _SkippedError(SkipReason.NO_REPLAY, outcome.reason)
        return name

    def _place(self, key: ScheduleKey) -> _Place:
        if key not in self.places:
            self.places[key] = _Place(self._store.interchange.replayed_traces(key))
        return self.places[key]

    def _read(self, line: Line) -> tuple[ScheduleKey, FileRecord]:
        try:
            record = parse_record(line)
        except BadLineError as error:
            raise _SkippedError(SkipReason.BAD_LINE, str(error)) from None
        if not 0 <= record.workload < len(self._workloads):
            raise _SkippedError(SkipReason.NO_WORKLOAD, f"there is no program {record.workload}")
        workload = self._workloads[record.workload]
        if workload is None:
            detail = f"program {record.workload}, on line {record.workload + 1}, was left out"
            raise _SkippedError(SkipReason.NO_WORKLOAD, detail)
        target = self._targets.find(record.target)
        if isinstance(target, RefusedTarget):
            raise _SkippedError(target.reason, target.detail)
        return workload.on(target), record
