"""What Prometheus is told: counted here, or read out of the database when it asks."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from tunebook.cache.errors import TunebookError
from tunebook.cache.statistics.activity import Activity

__all__ = ["CONTENT_TYPE_LATEST", "BoundedLabels", "Metrics"]

_log = logging.getLogger(__name__)

# Texts that come from requests become labels: beyond so many they are all one.
_TARGETS = 200
_PIPELINES = 200
_BOARD_CLASSES = 200
OTHER = "other"
# Seconds: a look-up on an idle machine to a transaction that waits for SQLite's lock.
_TRANSACTION_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 30)
# Seconds: a round of one trial of a small kernel to one of many on a slow board.
_ROUND_BUCKETS = (0.5, 1, 2, 5, 10, 20, 40, 80, 160, 320, 640)


class BoundedLabels:
    """The first so many different texts, and one for all others."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def of(self, text: str) -> str:
        """The text as a label, or `other`."""
        if text in self._known:
            return text
        if len(self._known) >= self._most:
            return OTHER
        self._known.add(text)
        return text


class Metrics:
    """What Prometheus is told, in a registry of its own.

    Counters begin at 0 with the process, as Prometheus expects. What workers do is read from the
    database when somebody asks, and no more often than every `scrape_seconds`; where the database
    does not answer, what was read last stays.
    """

    def __init__(
        self,
        read_activity: Callable[[], Activity],
        *,
        scrape_seconds: float = 2.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read_activity = read_activity
        self._scrape_seconds = scrape_seconds
        self._monotonic = monotonic
        self._read_at: float | None = None
        self._reading = threading.Lock()
        self._targets = BoundedLabels(_TARGETS)
        self._pipelines = BoundedLabels(_PIPELINES)
        self._board_classes = BoundedLabels(_BOARD_CLASSES)
        self._registry = CollectorRegistry()
        self._lookups = Counter(
            "tunebook_lookups",
            "Keys that were looked up, by outcome: hit, or the reason of the miss.",
            ["target", "pipeline", "outcome"],
            registry=self._registry,
        )
        self._trials = Counter(
            "tunebook_trials",
            "Trials that were charged, by board class and outcome: measured, or the error's class.",
            ["board_class", "outcome"],
            registry=self._registry,
        )
        self._rounds = Histogram(
            "tunebook_round_seconds",
            "What finished rounds took.",
            registry=self._registry,
            buckets=_ROUND_BUCKETS,
        )
        self._transactions = Histogram(
            "tunebook_database_seconds",
            "What transactions of the coordinator took, by kind: read or write.",
            ["kind"],
            registry=self._registry,
            buckets=_TRANSACTION_BUCKETS,
        )
        self._open_rounds = self._gauge(
            "tunebook_open_rounds", "Rounds that are open: claimed by a worker, or free.", "state"
        )
        self._open_jobs = self._gauge(
            "tunebook_open_jobs", "Jobs that are open, by what they need next.", "stage"
        )
        self._board_seconds = self._gauge(
            "tunebook_board_seconds", "Seconds that boards were used for since the database began."
        )
        self._quarantined_boards = self._gauge(
            "tunebook_quarantined_boards",
            "Boards that drifted and measure nothing but their reference.",
            "board_class",
        )
        self._suspect_records = self._gauge(
            "tunebook_suspect_records",
            "Records of boards that had drifted, which are to be measured again.",
            "board_class",
        )

    def count_lookups(self, target: str, pipeline: str, outcome: str, keys: int) -> None:
        """Counts keys that were looked up; `outcome` is `hit` or the reason of a miss."""
        labels = self._targets.of(target), self._pipelines.of(pipeline), outcome
        self._lookups.labels(*labels).inc(keys)

    def also_collect(self, collector: Collector) -> None:
        """Tells what another part of the coordinator counts, too."""
        self._registry.register(collector)

    def observe_transaction(self, kind: str, seconds: float) -> None:
        """Counts a transaction of the database, `read` or `write`, with its seconds."""
        self._transactions.labels(kind).observe(seconds)

    def render(self) -> bytes:
        """All of it in Prometheus' text format."""
        with self._reading:
            self._refresh()
            return generate_latest(self._registry)

    def _refresh(self) -> None:
        now = self._monotonic()
        if self._read_at is not None and now - self._read_at < self._scrape_seconds:
            return
        self._read_at = now
        try:
            activity = self._read_activity()
        except TunebookError as error:
            _log.warning("metrics are not up to date", extra={"error": str(error)})
            return
        for kind, count in activity.trials.items():
            labels = self._board_classes.of(kind.board_class), kind.outcome
            self._trials.labels(*labels).inc(count)
        for seconds in activity.round_seconds:
            self._rounds.observe(seconds)
        self._open_rounds.labels("claimed").set(activity.claimed_rounds)
        self._open_rounds.labels("free").set(activity.free_rounds)
        # Stages that no job is in any more are gone.
        self._open_jobs.clear()
        for stage, count in activity.open_jobs.items():
            self._open_jobs.labels(stage).set(count)
        self._board_seconds.set(activity.board_seconds)
        self._by_class(self._quarantined_boards, activity.quarantined_boards)
        self._by_class(self._suspect_records, activity.suspect_records)

    def _by_class(self, gauge: Gauge, counts: Mapping[str, int]) -> None:
        gauge.clear()
        for board_class, count in counts.items():
            gauge.labels(self._board_classes.of(board_class)).inc(count)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self._registry)
