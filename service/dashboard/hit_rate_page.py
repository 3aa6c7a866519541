"""What the hit-rate page shows: the rates of every target over several times, and what misses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tunebook.cache.statistics.coverage import Coverage
from tunebook.cache.statistics.lookup_counts import OTHER, HitRate, Window
from tunebook.cache.statistics.missed_keys import MissedKeyFilter
from tunebook.cache.store import Store
from tunebook.service.dashboard.asked import Asked
from tunebook.service.dashboard.job_rows import JobRows
from tunebook.service.dashboard.miss_causes import CauseView, cause_views
from tunebook.service.dashboard.rate_chart import RateChart, rate_chart
from tunebook.service.dashboard.rate_rows import RateRow, Rates, rate_rows
from tunebook.service.dashboard.rates import NO_LOOKUPS
from tunebook.service.dashboard.target_labels import target_labels

COLUMNS = (
    (Window.NOW, "Last hour", "in the last hour"),
    (Window.DAY, "24 hours", "over the last 24 hours"),
    (Window.WEEK, "7 days", "over the last 7 days"),
    (Window.MONTH, "30 days", "over the last 30 days"),
)
_ALL = ""
_SHOWN_CAUSES = 20


@dataclass(frozen=True)
class Choice:
    """One of the values that a filter can have."""

    value: str
    label: str
    chosen: bool


@dataclass(frozen=True)
class Column:
    """A time over which rates are shown; `chosen` is the one that the page is about."""

    window: Window
    label: str
    chosen: bool


@dataclass(frozen=True)
class Figure:
    """A number at the top of the page."""

    name: str
    value: str
    aside: str
    standing: str = ""


@dataclass(frozen=True)
class Advice:
    """What stands where there is nothing to show, and what to do next."""

    title: str
    advice: str
    command: str = ""


@dataclass(frozen=True)
class HitRatePage:
    """All of the page but its jobs. `causes` are those met last; `more_causes` counts the rest."""

    asked: Asked
    windows: tuple[Choice, ...]
    targets: tuple[Choice, ...]
    pipelines: tuple[Choice, ...]
    columns: tuple[Column, ...]
    figures: tuple[Figure, ...]
    chart: RateChart | None
    rows: tuple[RateRow, ...]
    causes: tuple[CauseView, ...]
    more_causes: int
    nothing: Advice
    no_misses: Advice

    @property
    def window_in_words(self) -> str:
        return next(words for window, _, words in COLUMNS if window is self.asked.window)


def hit_rate_page(
    store: Store, rates: Rates, asked: Asked, jobs: JobRows, now: datetime, address: str
) -> HitRatePage:
    """The page as it stands now; `rates` are those of every window, and `address` is where builds
    reach this coordinator."""
    coverage = store.statistics.coverage()
    labels = _labels(rates.values(), coverage)
    rows = rate_rows(asked, rates, coverage, labels)
    missed = store.statistics.missed_groups(_filter(asked, now))
    causes = cause_views(missed, labels, address)
    return HitRatePage(
        asked=asked,
        windows=tuple(
            Choice(window.value, label, window is asked.window) for window, label, _ in COLUMNS
        ),
        targets=_choices("All targets", labels, asked.target),
        pipelines=_choices("All pipelines", _pipelines(rates.values()), asked.pipeline),
        columns=tuple(
            Column(window, label, window is asked.window) for window, label, _ in COLUMNS
        ),
        figures=tuple(_figures(asked, rows, causes, jobs)),
        chart=rate_chart(asked.window, asked.pipeline, rates[asked.window], rows),
        rows=rows,
        causes=causes[:_SHOWN_CAUSES],
        more_causes=max(0, len(causes) - _SHOWN_CAUSES),
        nothing=_nothing(asked, address),
        no_misses=_no_misses(rows),
    )


def _labels(rates: Iterable[Sequence[HitRate]], coverage: Mapping[str, Coverage]) -> dict[str, str]:
    looked_up = sorted({rate.target for found in rates for rate in found} | coverage.keys())
    labels = target_labels(target for target in looked_up if target != OTHER)
    return {**labels, **({OTHER: "other targets"} if OTHER in looked_up else {})}


def _pipelines(rates: Iterable[Sequence[HitRate]]) -> dict[str, str]:
    names = {series.pipeline for found in rates for rate in found for series in rate.pipelines}
    return {name: name for name in sorted(names)}


def _choices(all_of_them: str, labels: Mapping[str, str], chosen: str | None) -> tuple[Choice, ...]:
    """Everything, and each; what was asked for stays among them, even where there is none."""
    shown = dict(labels)
    if chosen is not None:
        shown.setdefault(chosen, chosen)
    each = (Choice(value, label, value == chosen) for value, label in shown.items())
    return (Choice(_ALL, all_of_them, chosen is None), *each)


def _filter(asked: Asked, now: datetime) -> MissedKeyFilter:
    length = timedelta(minutes=asked.window.bucket_minutes * asked.window.buckets)
    return MissedKeyFilter(target=asked.target, pipeline=asked.pipeline, since=now - length)


def _figures(
    asked: Asked, rows: Sequence[RateRow], causes: Sequence[CauseView], jobs: JobRows
) -> Iterator[Figure]:
    label = next(label for window, label, _ in COLUMNS if window is asked.window)
    rate = sum((row.rates[asked.window] for row in rows), NO_LOOKUPS)
    hits = f"{rate.hits:,} of {rate.lookups:,} look-ups" if rate.lookups else "no look-ups"
    yield Figure(f"Hit rate, {label.lower()}", rate.text, hits, rate.standing)
    ready = sum((row.ready for row in rows), NO_LOOKUPS)
    served = f"{ready.hits:,} of {ready.lookups:,} schedules of stored models"
    yield Figure("Ready now", ready.text, served if ready.lookups else "no models", ready.standing)
    missing = sum(cause.number_of_keys for cause in causes)
    told = "1 cause" if len(causes) == 1 else f"{len(causes)} causes"
    yield Figure("Still missing", f"{missing:,}", told, "poor" if missing else "")
    number = f"{len(jobs.rows)}+" if jobs.more else str(len(jobs.rows))
    yield Figure("Running jobs", number, "waiting ones too")


def _nothing(asked: Asked, address: str) -> Advice:
    if asked.target is not None or asked.pipeline is not None:
        return Advice(
            "Nothing was looked up there", "Choose another target or pipeline, or all of them."
        )
    return Advice(
        "Nothing was looked up yet",
        "Point a build or a look-up at this coordinator; what it asks for is counted here:",
        f"tunebook lookup MODEL --target TARGET --server {address}",
    )


def _no_misses(rows: Sequence[RateRow]) -> Advice:
    if any(rate.misses for row in rows for rate in row.rates.values()):
        return Advice(
            "Nothing is missing any more",
            "Whatever was missed in this time is in the cache now, or its misses are older.",
        )
    return Advice(
        "Nothing is missing", "A look-up that misses appears here, with the command that mends it."
    )
