"""What is stored of wanted keys themselves: their workloads, and what became of their records."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tunebook.cache.identities import find_target, key_of
from tunebook.cache.keys import ScheduleKey, WorkloadKey
from tunebook.cache.likeness import LookupHints
from tunebook.cache.near_workloads import PROGRAM_COLUMNS, program_of
from tunebook.cache.records import Source
from tunebook.cache.relations import Program
from tunebook.cache.tables import RecordRow, WorkloadRow

# SQLite before 3.32 takes 999 parameters in one statement.
_CHUNK = 400


@dataclass
class OwnRecords:
    """What became of the records of a key, by counts: successful ones of real boards, of emulated
    ones and imported ones, and the failures by their class."""

    real: int = 0
    emulated: int = 0
    imported: int = 0
    failures: Counter[str] = field(default_factory=Counter)


def programs_of(
    session: Session, keys: Sequence[ScheduleKey], hints: LookupHints
) -> dict[WorkloadKey, Program]:
    """What is known of the keys' programs: from the hints, or else from what is stored."""
    found = {key.workload: Program(key.workload) for key in keys}
    for key in found:
        if key in hints.likeness:
            found[key] = Program(key, hints.likeness[key])
    unknown = {key for key, program in found.items() if not program.likeness.structure}
    for chunk in _chunks(sorted(key.hash for key in unknown)):
        for row in session.execute(select(*PROGRAM_COLUMNS).where(WorkloadRow.hash.in_(chunk))):
            program = program_of(row)
            if program.key in unknown:
                found[program.key] = program
    return found


def own_records(session: Session, keys: Sequence[ScheduleKey]) -> Mapping[ScheduleKey, OwnRecords]:
    """What became of the records of each key; a key that has none is left out or has zeros."""
    own: defaultdict[ScheduleKey, OwnRecords] = defaultdict(OwnRecords)
    for target, hashes in batches(keys):
        target_id = find_target(session, target)
        if target_id is None:
            continue
        statement = (
            select(
                WorkloadRow.op,
                WorkloadRow.buffers,
                WorkloadRow.compiler,
                WorkloadRow.hash,
                RecordRow.emulated,
                RecordRow.error,
                RecordRow.source,
                func.count().label("count"),
            )
            .join(RecordRow, RecordRow.workload_id == WorkloadRow.id)
            .where(WorkloadRow.hash.in_(hashes), RecordRow.target_id == target_id)
            .group_by(WorkloadRow.id, RecordRow.emulated, RecordRow.error, RecordRow.source)
        )
        for row in session.execute(statement):
            of_key = own[key_of(row, target)]
            if row.error is not None:
                of_key.failures[row.error] += row.count
            elif row.source == Source.IMPORT.value:
                of_key.imported += row.count
            elif row.emulated:
                of_key.emulated += row.count
            else:
                of_key.real += row.count
    return own


def batches(keys: Sequence[ScheduleKey]) -> Iterator[tuple[str, list[str]]]:
    """The workload hashes wanted on each target, as many at a time as a statement may hold."""
    by_target: dict[str, list[str]] = {}
    for key in keys:
        by_target.setdefault(key.target, []).append(key.workload_hash)
    for target, hashes in by_target.items():
        for chunk in _chunks(hashes):
            yield target, chunk


def _chunks(texts: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(texts), _CHUNK):
        yield texts[start : start + _CHUNK]
