"""What Prometheus is told of the doorbell, of events, of rates, and of Redis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tunebook.cache.live.live import Live


class LiveMetrics(Collector):
    """Reads the counts of a Live when somebody asks. What is about Redis is only told where one is
    given: none is no fault."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._wakeups = 0

    def describe(self) -> list[Metric]:
        """Nothing: what there is does not depend on it, and Redis is not asked for it."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All of it as it stands now."""
        counts = self._live.counts
        yield _counter(
            "tunebook_event_news",
            "How those who follow jobs heard of new events: from this process, over Redis, or by "
            "looking into the database.",
            ["source"],
            {(source,): count for source, count in counts.news.items()},
        )
        yield _counter(
            "tunebook_rate_decisions",
            "Requests that were allowed or refused by their rate, as Redis or this process alone "
            "decided.",
            ["source", "outcome"],
            counts.decisions,
        )
        if self._live.has_redis:
            yield from self._of_redis()

    def _of_redis(self) -> Iterator[Metric]:
        counts, live = self._live.counts, self._live
        up = GaugeMetricFamily("tunebook_redis_up", "Whether Redis is there: 1, or 0 while away.")
        up.add_metric([], float(live.is_up))
        yield up
        yield _counter(
            "tunebook_redis_failures",
            "How often Redis was away or refused, by what it was wanted for.",
            ["use"],
            {(use,): count for use, count in counts.failures.items()},
        )
        yield _counter(
            "tunebook_doorbell_rings",
            "Rings for new work: sent to others by this process, lost since Redis was away, and "
            "heard from others.",
            ["way"],
            {(way,): count for way, count in counts.rings.items()},
        )
        yield _counter(
            "tunebook_shared_answers",
            "Answers to look-ups that Redis was asked for, which another replica had put there "
            "(found) or not (missing).",
            ["outcome"],
            {(outcome,): count for outcome, count in counts.answers.items()},
        )
        # Of the whole fleet, whose workers nobody scrapes; the last that is known.
        self._wakeups = live.wakeups() or self._wakeups
        yield _counter(
            "tunebook_doorbell_wakeups",
            "Idle lanes of workers, of the whole fleet, that a ring woke, as Redis counted.",
            [],
            {(): self._wakeups},
        )


def _counter(
    name: str, text: str, labels: list[str], counts: Mapping[Any, int]
) -> CounterMetricFamily:
    """Counts by the values of the labels, a tuple for each."""
    family = CounterMetricFamily(name, text, labels=labels)
    for values, count in sorted(counts.items()):
        family.add_metric(list(values), count)
    return family
