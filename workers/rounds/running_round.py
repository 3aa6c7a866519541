"""A claimed round while it runs, and what is being built for it."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import Candidate, Measurement
from tunebook.cache.store import ClaimedRound, Slot, TaskState
from tunebook.tuner.trials.trials import BuildFailure, BuiltLibrary
from tunebook.workers.rounds.lease import Lease

Build = Future[BuiltLibrary | BuildFailure]


@dataclass
class RunningRound:
    """A claimed round: its lease, its task when it began, what was built (by module hash) and
    measured, and how many seconds of one process that took."""

    claimed: ClaimedRound
    lease: Lease
    task: TaskState
    libraries: dict[str, BuiltLibrary] = field(default_factory=dict)
    results: list[tuple[Candidate, Measurement]] = field(default_factory=list)
    seconds: float = 0.0

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
        measured = [measurement.seconds for _, measurement in self.results]
        return min((s for s in (self.task.best_seconds, *measured) if s is not None), default=None)


@dataclass(frozen=True)
class RunningTrial:
    """A slot whose candidate is being built."""

    round: RunningRound
    slot: Slot


def discard(builds: Iterable[Build]) -> None:
    """Removes what was built, and what still will be; what was not begun is not built any more."""
    for build in builds:
        build.cancel()
        build.add_done_callback(_remove)


def _remove(build: Build) -> None:
    if not build.cancelled() and build.exception() is None:
        built = build.result()
        if isinstance(built, BuiltLibrary):
            built.path.unlink(missing_ok=True)
