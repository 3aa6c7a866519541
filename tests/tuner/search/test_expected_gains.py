"""What more tuning is expected to bring each model of a plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.work import TaskState
from tunebook.tuner.search.allocation import RoundSizes
from tunebook.tuner.search.expected_gains import expect_after
from tunebook.tuner.search.forecast import PlannedJob, Room

_HOUR = 3600.0


def _job(number: int = 0, **changes: object) -> PlannedJob:
    job = PlannedJob(
        model=f"model {number}",
        shapes="",
        target="target",
        board_class="pi5",
        trials=1200,
        tasks=20,
        seconds_per_trial=0.3,
        board_seconds_per_trial=0.1,
    )
    return replace(job, **changes)


def _task(number: int, seconds: float, **changes: object) -> TaskState:
    task = TaskState(
        id=number,
        key=ScheduleKey(f"op{number}", "f32[1] -> f32[1]", "target", "compiler", f"{number:016x}"),
        weight=1,
        flops=0.0,
        untuned_seconds=2 * seconds,
        best_seconds=seconds,
        served_seconds=seconds,
        trials=64,
        history=(2 * seconds, 1.5 * seconds, 1.2 * seconds, seconds),
        exhausted=False,
        failures={},
        seconds_per_trial=1.0,
    )
    return replace(task, **changes)


def test_another_hour_goes_where_it_brings_most() -> None:
    improving = _job(0, states=(_task(0, 1e-3), _task(1, 2e-3)))
    flat = (1e-3,) * 40
    stalled = _job(1, states=(_task(0, 1e-3, trials=640, history=flat),))
    first, second = expect_after([improving, stalled], Room(), _HOUR, RoundSizes())
    assert first.trials > second.trials
    assert first.trials + second.trials == pytest.approx(3600, abs=16)
    assert first.share > second.share >= 0
    assert 0 < first.expected_latency < first.latency == pytest.approx(3e-3)


def test_more_boards_bring_more_in_an_hour() -> None:
    job = _job(states=(_task(0, 1e-3),))
    (one,) = expect_after([job], Room(boards={"pi5": 1}), _HOUR, RoundSizes())
    (four,) = expect_after([job], Room(boards={"pi5": 4}), _HOUR, RoundSizes())
    assert four.trials == pytest.approx(4 * one.trials, rel=0.02)
    assert four.share > one.share


def test_boards_of_one_class_take_nothing_from_another() -> None:
    job = _job(0, states=(_task(0, 1e-3),))
    other = _job(1, states=(_task(0, 1e-3),), board_class="pi4")
    (alone,) = expect_after([job], Room(), _HOUR, RoundSizes())
    (beside, _) = expect_after([job, other], Room(), _HOUR, RoundSizes())
    assert beside == alone


def test_exhausted_tasks_and_unsplit_models_promise_nothing() -> None:
    exhausted = _job(1, states=(_task(0, 1e-3, exhausted=True),))
    (gain,) = expect_after([_job(0), exhausted], Room(), _HOUR, RoundSizes())
    assert (gain.job, gain.trials, gain.share) == (1, 0, 0.0)


def test_nothing_is_said_of_a_model_that_was_split_and_never_timed() -> None:
    untried = _task(0, 1e-3, untuned_seconds=None, best_seconds=None, trials=0, history=())
    jobs = [_job(0, states=(untried,)), _job(1, states=(_task(0, 1e-3),))]
    (gain,) = expect_after(jobs, Room(), _HOUR, RoundSizes())
    assert gain.job == 1


def test_an_hour_of_quick_trials_is_forecast_in_large_rounds() -> None:
    """Trials of a millisecond: in rounds of 16 they would be 225,000 rounds."""
    tasks = tuple(_task(n, 1e-3 * (n + 1), seconds_per_trial=1e-3) for n in range(30))
    jobs = [_job(number, states=tasks, seconds_per_trial=1e-3) for number in range(5)]
    gains = expect_after(jobs, Room(), _HOUR, RoundSizes())
    assert sum(one.trials for one in gains) == pytest.approx(3_600_000, rel=0.01)
    assert all(0 < one.share < 1 for one in gains)
