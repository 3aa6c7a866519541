"""What the allocation does with a budget, round by round."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.work import TaskState
from tunebook.tuner.search.allocation import RoundSizes
from tunebook.tuner.search.rehearsal import Rehearsal, RehearsedRound, RoundOutcome

_SIZES = RoundSizes(largest=16)


def _task(number: int, untuned: float, seconds_per_trial: float | None = None) -> TaskState:
    return TaskState(
        id=number,
        key=ScheduleKey(f"op{number}", "f32[1] -> f32[1]", "target", "compiler", f"{number:016x}"),
        weight=1,
        flops=0.0,
        untuned_seconds=untuned,
        best_seconds=None,
        served_seconds=None,
        trials=0,
        history=(),
        exhausted=False,
        failures={},
        seconds_per_trial=seconds_per_trial,
    )


def _measured(task: TaskState, trials: int, best: float | None) -> TaskState:
    reached = math.inf if best is None else best
    return replace(
        task,
        trials=task.trials + trials,
        best_seconds=best,
        history=(*task.history, reached),
        history_trials=(*task.history_trials, task.trials + trials),
        seconds_per_trial=task.seconds_per_trial or 1.0,
    )


def _falling(exponent: float) -> RoundOutcome:
    """Every task improves for ever, as a power of its trials."""

    def outcome(job: int, task: TaskState, trials: int) -> TaskState:
        best = (task.untuned_seconds or 0.0) * (task.trials + trials) ** -exponent
        return _measured(task, trials, best)

    return outcome


def _play(rehearsal: Rehearsal) -> list[RehearsedRound]:
    return list(iter(rehearsal.step, None))


def _trials(rounds: list[RehearsedRound]) -> Counter[tuple[int, int]]:
    trials: Counter[tuple[int, int]] = Counter()
    for one in rounds:
        trials[one.job, one.task_id] += one.trials
    return trials


@given(
    jobs=st.lists(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=8), min_size=1, max_size=4),
    trials=st.integers(1, 600),
    exponent=st.floats(0, 1),
)
@settings(deadline=None, max_examples=60)
def test_the_budget_is_spent_exactly_and_every_task_is_tried_where_it_allows(
    jobs: list[list[float]], trials: int, exponent: float
) -> None:
    tasks = [[_task(n, untuned) for n, untuned in enumerate(job)] for job in jobs]
    rehearsal = Rehearsal(tasks, trials, _SIZES, _falling(exponent))
    rounds = _play(rehearsal)
    assert sum(one.trials for one in rounds) == trials
    assert all(1 <= one.trials <= _SIZES.largest for one in rounds)
    tried = sum(task.trials > 0 for job in rehearsal.jobs for task in job)
    assert tried == min(trials, sum(map(len, jobs)))


@given(small=st.floats(1e-4, 0.02), others=st.integers(2, 6), exponent=st.floats(0.05, 0.6))
@settings(deadline=None, max_examples=40)
def test_a_task_worth_two_percent_gets_a_small_share(
    small: float, others: int, exponent: float
) -> None:
    each = (1 - small) / others
    tasks = [_task(0, small), *(_task(n, each) for n in range(1, others + 1))]
    trials = _trials(_play(Rehearsal([tasks], 200 * len(tasks), _SIZES, _falling(exponent))))
    assert trials[0, 0] <= 0.08 * trials.total() + _SIZES.largest
    assert trials[0, 0] < min(trials[0, n] for n in range(1, others + 1))


@given(stalls_at=st.integers(16, 64), exponent=st.floats(0.2, 0.6), others=st.integers(2, 6))
@settings(deadline=None, max_examples=40)
def test_a_task_that_stopped_improving_is_left(
    stalls_at: int, exponent: float, others: int
) -> None:
    """All tasks are alike until one stalls, which then is the slowest."""
    falling = _falling(exponent)

    def outcome(job: int, task: TaskState, trials: int) -> TaskState:
        if task.id == 0 and task.trials >= stalls_at:
            return _measured(task, trials, task.best_seconds)
        return falling(job, task, trials)

    tasks = [_task(n, 1.0) for n in range(others + 1)]
    trials = _trials(_play(Rehearsal([tasks], 300 * len(tasks), _SIZES, outcome)))
    assert trials[0, 0] < 0.75 * min(trials[0, n] for n in range(1, others + 1))


def test_a_task_that_never_works_does_not_hold_up_the_others() -> None:
    def outcome(job: int, task: TaskState, trials: int) -> TaskState:
        if task.id == 0:
            return _measured(task, trials, None)
        return _falling(0.3)(job, task, trials)

    tasks = [_task(n, 1.0) for n in range(4)]
    trials = _trials(_play(Rehearsal([tasks], 1600, _SIZES, outcome)))
    assert 0 < trials[0, 0] < 0.1 * 1600


def test_an_exhausted_task_ends_its_job() -> None:
    def outcome(job: int, task: TaskState, trials: int) -> TaskState:
        return replace(_measured(task, trials, 1.0), exhausted=True)

    rounds = _play(Rehearsal([[_task(0, 1.0), _task(1, 1.0)]], 1000, _SIZES, outcome))
    assert [one.task_id for one in rounds] == [0, 1]


def test_equal_models_share_equally_whatever_their_speed() -> None:
    jobs = [[_task(0, 1e-6), _task(1, 3e-6)], [_task(0, 1.0), _task(1, 3.0)]]
    trials = _trials(_play(Rehearsal(jobs, 960, _SIZES, _falling(0.3))))
    first, second = (trials[job, 0] + trials[job, 1] for job in (0, 1))
    assert abs(first - second) <= _SIZES.largest


def test_of_two_models_the_one_with_the_higher_priority_gets_more() -> None:
    jobs = [[_task(0, 1.0)], [_task(0, 1.0)]]
    rehearsal = Rehearsal(jobs, 960, _SIZES, _falling(0.3), priorities=[1.0, 4.0])
    trials = _trials(_play(rehearsal))
    assert trials[1, 0] > 2 * trials[0, 0]


def test_of_two_equal_models_the_one_on_slower_boards_gets_fewer_trials() -> None:
    jobs = [[_task(0, 1.0, seconds_per_trial=4.0)], [_task(0, 1.0, seconds_per_trial=1.0)]]
    trials = _trials(_play(Rehearsal(jobs, 960, _SIZES, _falling(0.3))))
    assert trials[1, 0] > 2 * trials[0, 0]
