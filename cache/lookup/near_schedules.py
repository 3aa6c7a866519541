"""Schedules from which a key that misses can be recovered without a search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.likeness import LookupHints
from tunebook.cache.lookup.distances import differences
from tunebook.cache.lookup.near_queries import Holding
from tunebook.cache.lookup.near_workloads import NearWorkloads
from tunebook.cache.lookup.wanted_keys import WantedKey, wanted_keys
from tunebook.cache.misses import Difference, MissReason
from tunebook.cache.records import Record, Source
from tunebook.cache.storage.identities import find_target
from tunebook.cache.storage.tables import RecordRow
from tunebook.cache.stored.stored_records import read_records

# Near keys that are given, the wanted one's own entries included.
ENTRIES = 8

_IS_IMPORTED = RecordRow.source == Source.IMPORT.value


@dataclass(frozen=True)
class NearSchedules:
    """Successful records of a key near a wanted one, in the order in which to try their traces.

    `reason` is how the key is near, `differences` where it differs from the wanted one (wanted,
    then this one). None of the records need be verified, and some were imported: whoever takes
    them up measures and verifies them anew.
    """

    reason: MissReason
    key: ScheduleKey
    differences: tuple[Difference, ...]
    records: tuple[Record, ...]


def near(
    session: Session, key: ScheduleKey, emulated: bool, hints: LookupHints, limit: int
) -> tuple[NearSchedules, ...]:
    """See Store.near."""
    (wanted,) = wanted_keys(session, [key], hints)
    own = list(_own(session, wanted, emulated, limit))
    finder = NearWorkloads(session, hints, Holding.SUCCESSFUL)
    others = [
        NearSchedules(
            reason=near_key.reason,
            key=near_key.key,
            differences=differences(key, near_key.key, wanted.program.likeness, near_key.likeness),
            records=_fastest(session, (near_key.workload_id, near_key.target_id), emulated, limit),
        )
        for near_key in finder.nearest(wanted, ENTRIES - len(own))
    ]
    return (*own, *others)


def _own(
    session: Session, wanted: WantedKey, emulated: bool, limit: int
) -> Iterator[NearSchedules]:
    """The key's own records that cannot be served as they are."""
    target_id = find_target(session, wanted.key.target)
    if wanted.workload_id is None or target_id is None:
        return
    ids = (wanted.workload_id, target_id)
    imported = _fastest(session, ids, emulated, limit, _IS_IMPORTED)
    if imported:
        yield NearSchedules(MissReason.UNVERIFIED, wanted.key, (), imported)
    if emulated:
        return
    of_emulated_boards = _fastest(
        session, ids, emulated, limit, RecordRow.emulated.is_(True), ~_IS_IMPORTED
    )
    if of_emulated_boards:
        yield NearSchedules(MissReason.EMULATED_ONLY, wanted.key, (), of_emulated_boards)


def _fastest(
    session: Session,
    ids: tuple[int, int],
    emulated: bool,
    limit: int,
    *conditions: ColumnElement[bool],
) -> tuple[Record, ...]:
    """Measured here before imported, of the wanted kind of board before the other, verified before
    not, and then the fastest."""
    best: Sequence[int] = session.scalars(
        select(RecordRow.id)
        .where(
            RecordRow.workload_id == ids[0],
            RecordRow.target_id == ids[1],
            RecordRow.seconds.is_not(None),
            *conditions,
        )
        .order_by(
            _IS_IMPORTED,
            RecordRow.emulated if not emulated else RecordRow.emulated.desc(),
            RecordRow.verified.desc(),
            RecordRow.seconds,
            RecordRow.id,
        )
        .limit(limit)
    ).all()
    return read_records(session, best)
