"""How often keys were looked up and how many hit: counted by the minute, read by buckets."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import Any

from sqlalchemy import delete, func, literal, select
from sqlalchemy.orm import Session

from tunebook.cache.storage.identities import insert_or_update
from tunebook.cache.storage.tables import LookupCountRow

HIT = "hit"
# Where a target or pipeline is none of those that are counted by name.
OTHER = "other"
# A little more than the longest window shows.
_KEPT_MINUTES = 35 * 24 * 60
# Windows that reach further back than this have buckets of hours.
_BY_THE_MINUTE = 48 * 60
_HOUR = 60


@dataclass(frozen=True, order=True)
class LookupCell:
    """What is counted: keys of a target that a pipeline looked up in a minute (from 1970) with one
    outcome, `hit` or the reason of a miss."""

    target: str
    minute: int
    pipeline: str
    outcome: str


class Window(str, Enum):
    """A span of time that ends now, and is shown in buckets of equal length."""

    NOW = "now"
    DAY = "24h"
    WEEK = "7d"
    MONTH = "30d"

    @property
    def bucket_minutes(self) -> int:
        return {"now": 5, "24h": 60, "7d": 6 * 60, "30d": 24 * 60}[self.value]

    @property
    def buckets(self) -> int:
        return {"now": 12, "24h": 24, "7d": 28, "30d": 30}[self.value]


@dataclass(frozen=True)
class HitCount:
    """How many keys were looked up, and what became of them: `reasons` counts the misses."""

    hits: int
    reasons: Mapping[str, int]

    @property
    def misses(self) -> int:
        return sum(self.reasons.values())

    @property
    def rate(self) -> float | None:
        """The share that hit; None where nothing was looked up."""
        wanted = self.hits + self.misses
        return self.hits / wanted if wanted else None

    @classmethod
    def of(cls, outcomes: Mapping[str, int]) -> HitCount:
        reasons = {name: count for name, count in sorted(outcomes.items()) if name != HIT}
        return cls(outcomes.get(HIT, 0), reasons)


@dataclass(frozen=True)
class HitSeries:
    """What was counted of one pipeline (or all: empty) in a window: in all, and by bucket."""

    pipeline: str
    total: HitCount
    buckets: tuple[HitCount, ...]


@dataclass(frozen=True)
class HitRate:
    """What was looked up on a target (`other`: any that nothing is stored for) in a window that
    starts at `start`; of the pipelines that with the lowest rate first."""

    target: str
    window: Window
    start: datetime
    series: HitSeries
    pipelines: tuple[HitSeries, ...]


def add_counts(session: Session, counts: Mapping[LookupCell, int]) -> None:
    """Adds to what is counted, in one order: several coordinators may do so at once."""
    statement = insert_or_update(
        session,
        LookupCountRow,
        ["target", "minute", "pipeline", "outcome"],
        lambda new: {"count": LookupCountRow.count + new.count},
    )
    rows = [{**vars(cell), "count": counts[cell]} for cell in sorted(counts)]
    if rows:
        session.execute(statement, rows)


def forget_old_counts(session: Session, minute: int) -> None:
    """Removes what no window shows any more."""
    session.execute(delete(LookupCountRow).where(LookupCountRow.minute < minute - _KEPT_MINUTES))


def coarsen_old_counts(session: Session, minute: int) -> None:
    """Keeps what is older than two days by the hour: a month of minutes would be long to read."""
    gone = session.execute(
        delete(LookupCountRow)
        .where(
            LookupCountRow.minute < minute - _BY_THE_MINUTE,
            LookupCountRow.minute % _HOUR != 0,
        )
        .returning(
            LookupCountRow.target,
            LookupCountRow.minute,
            LookupCountRow.pipeline,
            LookupCountRow.outcome,
            LookupCountRow.count,
        )
    )
    hours: Counter[LookupCell] = Counter()
    for target, at, pipeline, outcome, number in gone.all():
        hours[LookupCell(target, at - at % _HOUR, pipeline, outcome)] += number
    add_counts(session, hours)


def counted_pipelines(session: Session, limit: int) -> tuple[str, ...]:
    """Names of pipelines that were counted, those that came last first."""
    latest = func.max(LookupCountRow.minute)
    rows = session.scalars(
        select(LookupCountRow.pipeline)
        .where(LookupCountRow.pipeline != OTHER)
        .group_by(LookupCountRow.pipeline)
        .order_by(latest.desc(), LookupCountRow.pipeline)
        .limit(limit)
    )
    return tuple(rows)


def hit_rates(
    session: Session, window: Window, now: datetime, target: str | None, pipeline: str | None
) -> tuple[HitRate, ...]:
    """Of one target or all that something was counted for, the lowest rate first."""
    start, minutes = _start(window, now), window.bucket_minutes
    bucket: Any = (LookupCountRow.minute - literal(start, literal_execute=True)) // literal(
        minutes, literal_execute=True
    )
    statement = select(
        LookupCountRow.target,
        LookupCountRow.pipeline,
        LookupCountRow.outcome,
        bucket.label("bucket"),
        func.sum(LookupCountRow.count).label("number"),
    ).where(
        LookupCountRow.minute >= start, LookupCountRow.minute < start + minutes * window.buckets
    )
    if target is not None:
        statement = statement.where(LookupCountRow.target == target)
    if pipeline is not None:
        statement = statement.where(LookupCountRow.pipeline == pipeline)
    rows = session.execute(
        statement.group_by(
            LookupCountRow.target, LookupCountRow.pipeline, LookupCountRow.outcome, bucket
        )
    )
    cells: dict[str, dict[str, dict[int, Counter[str]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(Counter))
    )
    for row in rows:
        cells[row.target][row.pipeline][int(row.bucket)][row.outcome] += int(row.number)
    wanted = cells.keys() if target is None else [target]
    return tuple(sorted((_rate(one, window, start, cells[one]) for one in list(wanted)), key=_rank))


def _start(window: Window, now: datetime) -> int:
    """The minute in which the window starts, so that its last bucket is the one that is now."""
    length = window.bucket_minutes
    return (int(now.timestamp()) // 60 // length - window.buckets + 1) * length


def _rate(
    target: str, window: Window, start: int, pipelines: Mapping[str, Mapping[int, Counter[str]]]
) -> HitRate:
    everyone: dict[int, Counter[str]] = defaultdict(Counter)
    for buckets in pipelines.values():
        for number, outcomes in buckets.items():
            everyone[number] += outcomes
    series = [_series(name, window, buckets) for name, buckets in pipelines.items()]
    return HitRate(
        target=target,
        window=window,
        start=datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(minutes=start),
        series=_series("", window, everyone),
        pipelines=tuple(sorted(series, key=lambda one: (*_order(one.total), one.pipeline))),
    )


def _series(pipeline: str, window: Window, buckets: Mapping[int, Counter[str]]) -> HitSeries:
    total: Counter[str] = sum(buckets.values(), Counter())
    each: Iterable[HitCount] = (
        HitCount.of(buckets.get(number, Counter())) for number in range(window.buckets)
    )
    return HitSeries(pipeline, HitCount.of(total), tuple(each))


def _rank(rate: HitRate) -> tuple[Any, ...]:
    return (*_order(rate.series.total), rate.target)


def _order(count: HitCount) -> tuple[float, int]:
    """Lowest rate first, of these the most misses; what was not looked up comes last."""
    return (2.0 if count.rate is None else count.rate, -count.misses)
