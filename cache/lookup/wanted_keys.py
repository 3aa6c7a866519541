"""The keys that missed, with what is known of their programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.likeness import UNKNOWN, LookupHints
from tunebook.cache.lookup.near_queries import PROGRAM_COLUMNS, program_of
from tunebook.cache.lookup.relations import Program
from tunebook.cache.storage.identities import CHUNK
from tunebook.cache.storage.tables import WorkloadRow


@dataclass(frozen=True)
class WantedKey:
    """A key that missed; `workload_id` is None where its workload was never stored."""

    key: ScheduleKey
    program: Program
    workload_id: int | None


def wanted_keys(
    session: Session, keys: Sequence[ScheduleKey], hints: LookupHints
) -> list[WantedKey]:
    """What is known of each key: from the hints, or else from what is stored."""
    programs = {key.workload: Program(key.workload) for key in keys}
    ids = {}
    for _, hashes in batches(keys):
        for row in session.execute(select(*PROGRAM_COLUMNS).where(WorkloadRow.hash.in_(hashes))):
            program = program_of(row)
            if program.key in programs:
                programs[program.key], ids[program.key] = program, row.id
    for workload in programs:
        likeness = hints.likeness.get(workload, UNKNOWN)
        if likeness.structure:
            programs[workload] = Program(workload, likeness)
    return [WantedKey(key, programs[key.workload], ids.get(key.workload)) for key in keys]


def batches(keys: Sequence[ScheduleKey]) -> Iterator[tuple[str, list[str]]]:
    """The workload hashes wanted on each target, as many at a time as a statement may hold."""
    by_target: dict[str, list[str]] = {}
    for key in keys:
        by_target.setdefault(key.target, []).append(key.workload_hash)
    for target, hashes in by_target.items():
        for start in range(0, len(hashes), CHUNK):
            yield target, hashes[start : start + CHUNK]
