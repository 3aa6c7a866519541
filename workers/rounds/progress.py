"""What a run reports while it goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tunebook.cache.store import Budget, TaskState


@dataclass(frozen=True)
class Progress:
    """A moment of a run.

    `trials` of `trials_limit` are done; `latency` is the model's expected time in seconds with the
    best schedules so far (None while a task has neither a schedule nor an untuned time);
    `seconds_left` is expected (None while no rate is known); `activity` says what happens now.
    """

    trials: int
    trials_limit: int
    latency: float | None
    seconds_left: float | None
    activity: str


# Seconds between two reports.
_REPORT_SECONDS = 0.5

ProgressListener = Callable[[Progress], None]


def expected_latency(tasks: Sequence[TaskState]) -> float | None:
    """Seconds of one inference: each task's best time, or its untuned one, times its weight."""
    total = 0.0
    for task in tasks:
        seconds = task.best_seconds if task.best_seconds is not None else task.untuned_seconds
        if seconds is None:
            return None
        total += task.weight * seconds
    return total


class ProgressMeter:
    """Turns budgets and tasks into Progress, with a rate from this run's trials alone."""

    def __init__(
        self,
        listener: ProgressListener,
        monotonic: Callable[[], float],
        budget: Budget,
        seconds: float | None,
    ) -> None:
        self._listener = listener
        self._monotonic = monotonic
        self._started = monotonic()
        self._first_trials = budget.spent
        self._time_limit = seconds
        self._last_report = -_REPORT_SECONDS

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return self._monotonic() - self._started

    @property
    def out_of_time(self) -> bool:
        """Whether the run's time is used up."""
        return self._time_limit is not None and self.elapsed >= self._time_limit

    @property
    def due(self) -> bool:
        """Whether the last report is long enough ago for another to be worth its reads."""
        return self.elapsed - self._last_report >= _REPORT_SECONDS

    def report(self, budget: Budget, tasks: Sequence[TaskState], activity: str) -> None:
        """Tells the listener where the run stands."""
        self._last_report = self.elapsed
        self._listener(
            Progress(
                budget.spent,
                budget.limit,
                expected_latency(tasks),
                self._seconds_left(budget),
                activity,
            )
        )

    def _seconds_left(self, budget: Budget) -> float | None:
        done = budget.spent - self._first_trials
        by_trials = (budget.limit - budget.spent) * self.elapsed / done if done else None
        if self._time_limit is None:
            return by_trials
        by_time = max(0.0, self._time_limit - self.elapsed)
        return by_time if by_trials is None else min(by_time, by_trials)
