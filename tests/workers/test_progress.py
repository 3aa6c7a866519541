"""What a run reports while it goes on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.store import Budget, TaskState
from tunebook.workers.rounds.progress import Progress, ProgressMeter, expected_latency

KEY = ScheduleKey("op", "f32[1] -> f32[1]", "target", "compiler", "0" * 16)
TASK = TaskState(1, KEY, 1, 0.0, 4.0, 1.0, 1.0, 3, (1.0,), False, {})


@dataclass
class Clock:
    """A clock that the test sets."""

    now: float = 0.0
    reports: list[Progress] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now


def _budget(spent: int, limit: int = 100) -> Budget:
    return Budget(1, limit, spent, spent, 0.0)


@pytest.mark.parametrize(
    ("tasks", "seconds"),
    [
        ([TASK], 1.0),
        ([TASK, replace(TASK, weight=3)], 4.0),
        ([replace(TASK, best_seconds=None)], 4.0),
        ([TASK, replace(TASK, best_seconds=None, untuned_seconds=None)], None),
    ],
    ids=["best time", "times the weight", "untuned where nothing ran", "unknown"],
)
def test_the_expected_latency_is_the_sum_over_tasks(
    tasks: list[TaskState], seconds: float | None
) -> None:
    assert expected_latency(tasks) == seconds


def test_the_time_left_follows_this_runs_rate_alone() -> None:
    clock = Clock()
    meter = ProgressMeter(clock.reports.append, clock, _budget(spent=50), seconds=None)
    clock.now = 10.0
    meter.report(_budget(spent=60), [TASK], "op")
    assert clock.reports[0].seconds_left == pytest.approx(40.0)


def test_no_rate_is_no_guess() -> None:
    clock = Clock()
    ProgressMeter(clock.reports.append, clock, _budget(0), seconds=None).report(
        _budget(0), [TASK], "op"
    )
    assert clock.reports[0].seconds_left is None


def test_the_time_limit_bounds_the_time_left() -> None:
    clock = Clock()
    meter = ProgressMeter(clock.reports.append, clock, _budget(0), seconds=30.0)
    clock.now = 10.0
    meter.report(_budget(1), [TASK], "op")
    assert clock.reports[0].seconds_left == pytest.approx(20.0)


def test_a_run_is_out_of_time_at_its_limit_and_never_without_one() -> None:
    clock = Clock()
    limited = ProgressMeter(clock.reports.append, clock, _budget(0), seconds=30.0)
    endless = ProgressMeter(clock.reports.append, clock, _budget(0), seconds=None)
    clock.now = 29.9
    assert not limited.out_of_time
    clock.now = 30.0
    assert limited.out_of_time
    assert not endless.out_of_time
