"""A claimed round while it runs, and what is being built for it."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import Candidate, Measurement
from tunebook.cache.store import ClaimedRound, Slot, TaskState
from tunebook.tuner.trials.build_pool import BuildFuture
from tunebook.tuner.trials.trials import BuiltLibrary
from tunebook.workers.rounds.lease import Lease
from tunebook.workers.rounds.round_watch import RoundWatch


@dataclass
class RunningRound:
    """A claimed round: its lease, its task when it began, what was built (by module hash) and
    stored, and how many seconds of the worker's time that took; thread-safe. `search_seconds` and
    `build_seconds` are what the search and the builds took by themselves."""

    claimed: ClaimedRound
    lease: Lease
    task: TaskState
    libraries: dict[str, BuiltLibrary] = field(default_factory=dict)
    results: list[tuple[Candidate, Measurement]] = field(default_factory=list)
    seconds: float = 0.0
    search_seconds: float = 0.0
    build_seconds: float = 0.0
    _best_seconds: float | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def key(self) -> ScheduleKey:
        return self.claimed.key

    @property
    def told(self) -> dict[str, object]:
        """What a log says of it."""
        return {
            "job": self.claimed.job_id,
            "round": self.claimed.id,
            "task": self.claimed.task_id,
            "op": self.key.op,
            "target": self.key.target,
            "board_class": self.claimed.board_class,
            "trials": len(self.results),
            "seconds": round(self.seconds, 3),
            "best_seconds": self.best_seconds,
        }

    @property
    def best_seconds(self) -> float | None:
        """The task's best time so far."""
        known = (self.task.best_seconds, self._best_seconds)
        return min((seconds for seconds in known if seconds is not None), default=None)

    def is_over(self, watch: RoundWatch) -> bool:
        """Whether no trial of it may be begun any more."""
        return watch.stop.is_set() or self.lease.lost or watch.out_of_time(self.claimed)

    def measured(self, measurement: Measurement) -> None:
        """Notes a trial, which is not stored yet: the next is compared with it."""
        with self._lock:
            if measurement.seconds is not None:
                best = self._best_seconds
                self._best_seconds = min(best or measurement.seconds, measurement.seconds)

    def search_took(self, seconds: float) -> None:
        """Counts a search for this round, which had the worker for itself."""
        with self._lock:
            self.search_seconds += seconds
            self.seconds += seconds

    def build_took(self, seconds: float, processes: int) -> None:
        """Counts a build in one of so many processes."""
        with self._lock:
            self.build_seconds += seconds
            self.seconds += seconds / processes

    def board_took(self, seconds: float, boards: int) -> None:
        """Counts the time on one of so many boards."""
        with self._lock:
            self.seconds += seconds / boards


@dataclass(frozen=True)
class RunningTrial:
    """A slot whose candidate is being built."""

    round: RunningRound
    slot: Slot


def discard(builds: Iterable[BuildFuture]) -> None:
    """Removes what was built, and what still will be; what was not begun is not built any more."""
    for build in builds:
        build.cancel()
        build.add_done_callback(_remove)


def _remove(build: BuildFuture) -> None:
    if not build.cancelled() and build.exception() is None:
        built = build.result()
        if isinstance(built, BuiltLibrary):
            built.path.unlink(missing_ok=True)
