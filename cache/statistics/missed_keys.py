"""Keys that were looked up in vain, as they were explained last: as many as are worth reading."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.lookup import lookups
from tunebook.cache.mending_trials import alike, mended_together
from tunebook.cache.misses import Difference, Miss, MissGroup, MissReason, groups
from tunebook.cache.storage.identities import insert_or_update
from tunebook.cache.storage.tables import MissedKeyRow

# Of older ones the counts remain.
KEPT = 10_000
# So many are grouped at once.
_GROUPED = 2_000


@dataclass(frozen=True)
class MissedKey:
    """A key that a pipeline missed `count` times, first and last at these moments (UTC). `mended`
    says that the key would hit now."""

    miss: Miss
    pipeline: str
    count: int
    first_at: datetime
    last_at: datetime
    mended: bool = False


@dataclass(frozen=True)
class MissedKeyFilter:
    """Which misses to tell of: on a target, of a pipeline, for a reason, since a moment; of those
    that would hit now only with `mended`."""

    target: str | None = None
    pipeline: str | None = None
    reason: str | None = None
    since: datetime | None = None
    mended: bool = False


@dataclass(frozen=True)
class MissedGroup:
    """Missed keys of one cause, those that were missed last first; `count` is how often they were
    missed together."""

    group: MissGroup
    keys: tuple[MissedKey, ...]

    @property
    def count(self) -> int:
        return sum(key.count for key in self.keys)

    @property
    def last_at(self) -> datetime:
        return max(key.last_at for key in self.keys)


def add_missed_keys(session: Session, missed: Sequence[MissedKey]) -> None:
    """Notes misses with what explains them, and forgets the oldest beyond `KEPT`."""
    if not missed:
        return
    statement = insert_or_update(
        session,
        MissedKeyRow,
        ["key_hash", "pipeline"],
        lambda new: {
            **{name: new[name] for name in _EXPLAINED},
            "count": MissedKeyRow.count + new.count,
        },
    )
    # In one order: several coordinators may do so at once.
    rows = sorted(map(_row, missed), key=lambda row: (row["key_hash"], row["pipeline"]))
    session.execute(statement, rows)
    kept = (
        select(MissedKeyRow.id)
        .order_by(MissedKeyRow.last_at.desc(), MissedKeyRow.id.desc())
        .limit(KEPT)
    )
    if (session.scalar(select(func.count()).select_from(MissedKeyRow)) or 0) > KEPT:
        session.execute(delete(MissedKeyRow).where(MissedKeyRow.id.not_in(kept)))


_EXPLAINED = ("reason", "nearest", "differences", "explanation", "mending_command", "last_at")


def missed_keys(
    session: Session, wanted: MissedKeyFilter, limit: int = _GROUPED
) -> tuple[MissedKey, ...]:
    """The newest first."""
    statement = select(MissedKeyRow).order_by(MissedKeyRow.last_at.desc(), MissedKeyRow.id.desc())
    if wanted.target is not None:
        statement = statement.where(MissedKeyRow.target == wanted.target)
    if wanted.pipeline is not None:
        statement = statement.where(MissedKeyRow.pipeline == wanted.pipeline)
    if wanted.reason is not None:
        statement = statement.where(MissedKeyRow.reason == wanted.reason)
    if wanted.since is not None:
        statement = statement.where(MissedKeyRow.last_at >= wanted.since)
    found = [_missed_key(row) for row in session.scalars(statement.limit(limit))]
    served = lookups.servable(session, [one.miss.key for one in found])
    told = (replace(one, mended=one.miss.key in served) for one in found)
    return tuple(one for one in told if wanted.mended or not one.mended)


def missed_groups(session: Session, wanted: MissedKeyFilter) -> tuple[MissedGroup, ...]:
    """The misses by their causes, the cause that was met last first."""
    by_key: dict[ScheduleKey, list[MissedKey]] = {}
    for one in missed_keys(session, wanted):
        by_key.setdefault(one.miss.key, []).append(one)
    # Of a key that several pipelines missed, what was said last counts.
    found = groups([alike(missed[0].miss) for missed in by_key.values()])
    made = [MissedGroup(mended_together(group), tuple(_of_group(group, by_key))) for group in found]
    return tuple(sorted(made, key=lambda one: one.last_at, reverse=True))


def _of_group(
    group: MissGroup, by_key: Mapping[ScheduleKey, list[MissedKey]]
) -> Iterator[MissedKey]:
    for miss in group.misses:
        yield from by_key[miss.key]


def _row(missed: MissedKey) -> dict[str, Any]:
    miss = missed.miss
    return {
        "key_hash": hashlib.sha256(str(miss.key).encode()).hexdigest(),
        "pipeline": missed.pipeline,
        "key": str(miss.key),
        "target": miss.key.target,
        "reason": miss.reason.value,
        "nearest": "" if miss.nearest is None else str(miss.nearest),
        "differences": [asdict(one) for one in miss.differences],
        "explanation": miss.explanation,
        "mending_command": miss.mending_command,
        "count": missed.count,
        "first_at": missed.first_at,
        "last_at": missed.last_at,
    }


def _missed_key(row: MissedKeyRow) -> MissedKey:
    miss = Miss(
        key=ScheduleKey.parse(row.key),
        reason=MissReason(row.reason),
        nearest=ScheduleKey.parse(row.nearest) if row.nearest else None,
        differences=tuple(Difference(**one) for one in row.differences),
        explanation=row.explanation,
        mending_command=row.mending_command,
    )
    return MissedKey(miss, row.pipeline, row.count, row.first_at, row.last_at)
