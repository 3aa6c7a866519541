"""Counts look-ups in memory, and stores the counts in batches."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from tunebook.cache.errors import TunebookError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.misses import LookupAnswer, Miss
from tunebook.cache.statistics.lookup_counts import HIT, OTHER, LookupCell
from tunebook.cache.statistics.lookup_statistics import LookupBatch, LookupStatistics
from tunebook.cache.statistics.missed_keys import MissedKey

_log = logging.getLogger(__name__)

FLUSH_SECONDS = 2.0
# So many pipelines are counted by name.
PIPELINES = 64
# What callers who give no name are counted as.
UNNAMED = "unnamed"
# Beyond so many counts that could not be stored, time is told no finer.
_CELLS = 50_000
# Of more misses than these between two batches, the counts are all that is kept.
_MISSED = 10_000
_TIDY_SECONDS = 3600.0


@dataclass(frozen=True)
class Tally:
    """What one answer counts as: the target under which, the keys by outcome, and the misses."""

    target: str
    outcomes: tuple[tuple[str, int], ...]
    misses: tuple[Miss, ...] = ()

    @classmethod
    def of(cls, answer: LookupAnswer, target: str, *, is_stored: bool) -> Tally:
        """A target that nothing is stored for counts as one with all others."""
        outcomes = Counter(miss.reason.value for miss in answer.misses)
        outcomes[HIT] += len(answer.hits)
        told = tuple((name, count) for name, count in sorted(outcomes.items()) if count)
        return cls(target if is_stored else OTHER, told, answer.misses)


Observe = Callable[[str, str, str, int], None]


class LookupCounter:
    """Counts every look-up once, whoever answered it; safe to share between threads.

    What was counted is stored every few seconds, and on `stop`. A batch that cannot be stored is
    kept for the next time: only a process that is killed loses what it counted since the last one.
    Pipelines are counted by name where they are `named`, or among the first so many that came.
    `observe` is told of each outcome: target, pipeline, outcome, number of keys.
    """

    def __init__(
        self,
        statistics: LookupStatistics,
        *,
        named: Iterable[str] = (),
        observe: Observe | None = None,
        clock: Callable[[], float] = time.time,
        flush_seconds: float = FLUSH_SECONDS,
    ) -> None:
        self._statistics = statistics
        self._observe = observe
        self._clock = clock
        self._flush_seconds = flush_seconds
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._pipelines = set(named)
        self._counts: Counter[LookupCell] = Counter()
        self._missed: dict[tuple[ScheduleKey, str], MissedKey] = {}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begins to store what is counted. Raises DatabaseError."""
        self._learn_pipelines(self._statistics.pipelines(PIPELINES))
        self._thread = threading.Thread(target=self._run, name="lookup-counts", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stores what is left. What cannot be stored is lost, and the log says how much."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        try:
            self.flush()
        except TunebookError as error:
            _log.error("%d counted keys are lost: %s", self._counts.total(), error)

    def count(self, pipeline: str, tally: Tally) -> None:
        """Counts an answer that was given to a pipeline; without a name, as `unnamed`."""
        now = self._clock()
        with self._lock:
            name = self._counted_name(pipeline or UNNAMED)
            minute = self._minute(now)
            for outcome, keys in tally.outcomes:
                self._counts[LookupCell(tally.target, minute, name, outcome)] += keys
            if tally.misses:
                self._note(name, tally.misses, datetime.fromtimestamp(now, timezone.utc))
        if self._observe is not None:
            for outcome, keys in tally.outcomes:
                self._observe(tally.target, name, outcome, keys)

    def flush(self) -> None:
        """Stores what was counted since the last time. Raises DatabaseError, and keeps it then."""
        with self._flushing:
            with self._lock:
                counts, self._counts = self._counts, Counter()
                missed, self._missed = self._missed, {}
            if not counts and not missed:
                return
            try:
                self._statistics.add(LookupBatch(counts, tuple(missed.values())))
            except BaseException:
                self._put_back(counts, missed)
                raise

    def _run(self) -> None:
        tidied = -_TIDY_SECONDS
        while not self._stopping.wait(self._flush_seconds):
            try:
                self.flush()
                if time.monotonic() - tidied >= _TIDY_SECONDS:
                    tidied = time.monotonic()
                    self._statistics.tidy(int(self._clock()) // 60)
            except TunebookError as error:
                _log.warning("look-ups stay counted in memory until they can be stored: %s", error)

    def _learn_pipelines(self, names: Sequence[str]) -> None:
        with self._lock:
            for name in names:
                self._counted_name(name)

    def _counted_name(self, pipeline: str) -> str:
        if pipeline not in self._pipelines:
            if len(self._pipelines) >= PIPELINES:
                return OTHER
            self._pipelines.add(pipeline)
        return pipeline

    def _minute(self, now: float) -> int:
        minute = int(now) // 60
        if len(self._counts) >= _CELLS:
            return max((cell.minute for cell in self._counts), default=minute)
        return minute

    def _note(self, pipeline: str, misses: Sequence[Miss], moment: datetime) -> None:
        for miss in misses:
            place = (miss.key, pipeline)
            before = self._missed.get(place)
            if before is not None:
                self._missed[place] = replace(
                    before, miss=miss, count=before.count + 1, last_at=moment
                )
            elif len(self._missed) < _MISSED:
                self._missed[place] = MissedKey(miss, pipeline, 1, moment, moment)

    def _put_back(
        self, counts: Counter[LookupCell], missed: Mapping[tuple[ScheduleKey, str], MissedKey]
    ) -> None:
        with self._lock:
            self._counts.update(counts)
            for place, before in missed.items():
                later = self._missed.get(place)
                if later is not None:
                    self._missed[place] = replace(
                        later, count=before.count + later.count, first_at=before.first_at
                    )
                elif len(self._missed) < _MISSED:
                    self._missed[place] = before
