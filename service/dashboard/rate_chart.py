"""The chart of hit rates over time: a line for each of the targets with the lowest rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from tunebook.cache.statistics.lookup_counts import HitCount, HitRate, Window
from tunebook.service.dashboard.moments import Moment
from tunebook.service.dashboard.rate_rows import RateRow, rate_of
from tunebook.service.dashboard.rates import Rate

# As many as there are colours that can be told apart (dashboard.css).
_LINES = 8
# Beyond these, lines are dashed too.
_SOLID_LINES = 4
_BUCKETS = {
    Window.NOW: "5 minutes",
    Window.DAY: "hour",
    Window.WEEK: "6 hours",
    Window.MONTH: "day",
}


@dataclass(frozen=True)
class Line:
    """A target's line; `latest` is its last rate."""

    label: str
    latest: str
    dashed: bool


@dataclass(frozen=True)
class ChartMoment:
    """The rates of a bucket that starts then, one for each line."""

    moment: Moment
    rates: tuple[Rate, ...]

    @property
    def machine(self) -> str:
        return self.moment.machine

    @property
    def text(self) -> str:
        return self.moment.text


@dataclass(frozen=True)
class RateChart:
    """Lines, and their values by moment, oldest first; `told` says what they are."""

    told: str
    lines: tuple[Line, ...]
    moments: tuple[ChartMoment, ...]


def rate_chart(
    window: Window, pipeline: str | None, rates: Sequence[HitRate], rows: Sequence[RateRow]
) -> RateChart | None:
    """The chart of the rows that were looked up in the window; None where none was."""
    by_target = {rate.target: rate for rate in rates}
    looked_up = [row for row in rows if row.rates[window].lookups]
    shown = looked_up[:_LINES]
    if not shown:
        return None
    values = [
        [rate_of(count) for count in _buckets(by_target[row.target], pipeline)] for row in shown
    ]
    start, step = rates[0].start, timedelta(minutes=window.bucket_minutes)
    told = f"Each {_BUCKETS[window]}, in UTC"
    if len(looked_up) > len(shown):
        told += f"; the {len(shown)} targets with the lowest rates"
    return RateChart(
        told=told,
        lines=tuple(
            Line(row.label, _latest(line), number >= _SOLID_LINES)
            for number, (row, line) in enumerate(zip(shown, values, strict=True))
        ),
        moments=tuple(
            ChartMoment(Moment(start + number * step), each)
            for number, each in enumerate(zip(*values, strict=True))
        ),
    )


def _buckets(rate: HitRate, pipeline: str | None) -> tuple[HitCount, ...]:
    if pipeline is None:
        return rate.series.buckets
    return next(series.buckets for series in rate.pipelines if series.pipeline == pipeline)


def _latest(line: Sequence[Rate]) -> str:
    return next((rate.text for rate in reversed(line) if rate.lookups), "-")
