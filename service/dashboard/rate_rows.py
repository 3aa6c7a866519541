"""The rows of the table of hit rates: targets and their pipelines, the lowest rate first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tunebook.cache.statistics.coverage import Coverage
from tunebook.cache.statistics.lookup_counts import OTHER, HitCount, HitRate, Window
from tunebook.service.dashboard.asked import Asked
from tunebook.service.dashboard.rates import NO_LOOKUPS, Rate

_SHOWN_PIPELINES = 6
_NO_TARGET = "targets that no model was split for and nothing was tuned for"

Rates = Mapping[Window, Sequence[HitRate]]


@dataclass(frozen=True)
class PipelineRow:
    """What one pipeline looked up on a target."""

    name: str
    rates: Mapping[Window, Rate]


@dataclass(frozen=True)
class RateRow:
    """What was looked up on a target, and how much of what builds of the stored models look up is
    `ready` in the cache now. `more_pipelines` counts those with higher rates, left out."""

    label: str
    target: str
    text: str
    rates: Mapping[Window, Rate]
    ready: Rate
    pipelines: tuple[PipelineRow, ...]
    more_pipelines: int


def rate_rows(
    asked: Asked, rates: Rates, coverage: Mapping[str, Coverage], labels: Mapping[str, str]
) -> tuple[RateRow, ...]:
    """A row for each target that was looked up or that a model was split for, of those that were
    asked for."""
    targets = labels if asked.target is None else labels.keys() & {asked.target}
    rows = [_row(target, labels[target], asked, rates, coverage) for target in targets]
    if asked.pipeline is not None:
        rows = [row for row in rows if any(rate.lookups for rate in row.rates.values())]
    return tuple(sorted(rows, key=lambda row: (*_order(row.rates[asked.window]), row.target)))


def _row(
    target: str, label: str, asked: Asked, rates: Rates, coverage: Mapping[str, Coverage]
) -> RateRow:
    found = {
        window: next((rate for rate in each if rate.target == target), None)
        for window, each in rates.items()
    }
    pipelines = sorted(
        _pipeline_rows(found), key=lambda row: (*_order(row.rates[asked.window]), row.name)
    )
    of_all = {
        window: NO_LOOKUPS if rate is None else rate_of(rate.series.total)
        for window, rate in found.items()
    }
    covered = coverage.get(target, Coverage(0, 0))
    ready = Rate(covered.served, covered.keys)
    text = _NO_TARGET if target == OTHER else target
    if asked.pipeline is not None:
        of_one = next((row.rates for row in pipelines if row.name == asked.pipeline), None)
        nothing = dict.fromkeys(rates, NO_LOOKUPS)
        return RateRow(label, target, text, of_one or nothing, ready, (), 0)
    shown = tuple(pipelines[:_SHOWN_PIPELINES])
    return RateRow(label, target, text, of_all, ready, shown, len(pipelines) - len(shown))


def _pipeline_rows(found: Mapping[Window, HitRate | None]) -> list[PipelineRow]:
    by_name: dict[str, dict[Window, Rate]] = {}
    for window, rate in found.items():
        for series in () if rate is None else rate.pipelines:
            of_name = by_name.setdefault(series.pipeline, dict.fromkeys(found, NO_LOOKUPS))
            of_name[window] = rate_of(series.total)
    return [PipelineRow(name, of_name) for name, of_name in by_name.items()]


def rate_of(count: HitCount) -> Rate:
    """A count as a rate."""
    return Rate(count.hits, count.hits + count.misses)


def _order(rate: Rate) -> tuple[float, int]:
    """Lowest first, of these the most misses; what was not looked up comes last."""
    return (2.0 if rate.share is None else rate.share, -rate.misses)
