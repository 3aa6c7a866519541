"""Which task gets the next round."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.work import TaskState
from tunebook.tuner.search.allocation import (
    DEFAULT_SECONDS_PER_TRIAL,
    RoundSizes,
    expected_saving,
    improvement_exponent,
    propose_rounds,
)

_SIZES = RoundSizes(largest=16, first_share=0.4)


def _task(number: int, **changes: object) -> TaskState:
    task = TaskState(
        id=number,
        key=ScheduleKey(f"op{number}", "f32[1] -> f32[1]", "target", "compiler", f"{number:016x}"),
        weight=1,
        flops=0.0,
        untuned_seconds=1e-3,
        best_seconds=None,
        served_seconds=None,
        trials=0,
        history=(),
        exhausted=False,
        failures={},
    )
    return replace(task, **changes)


def _tried(number: int, seconds: float, **changes: object) -> TaskState:
    known = {"best_seconds": seconds, "untuned_seconds": 2 * seconds, "history": (seconds,)}
    return _task(number, trials=16, **known, **changes)


def test_every_task_gets_its_first_trial_before_any_gets_more() -> None:
    tasks = [_tried(1, 1.0), _task(2, untuned_seconds=1e-9), _task(3)]
    assert {one.task_id for one in propose_rounds(tasks, 100, 100, _SIZES)} == {2, 3}


def test_first_rounds_are_shared_out_by_untuned_latency() -> None:
    tasks = [_task(1, untuned_seconds=9e-3), _task(2, untuned_seconds=1e-3)]
    sizes = {one.task_id: one.size for one in propose_rounds(tasks, 40, 40, _SIZES)}
    assert sizes == {1: 14, 2: 2}


def test_as_many_trials_as_tasks_give_each_task_one() -> None:
    tasks = [_task(number, untuned_seconds=number * 1e-3) for number in range(1, 6)]
    assert [one.size for one in propose_rounds(tasks, 5, 5, _SIZES)] == [1, 1, 1, 1, 1]


def test_the_task_that_costs_most_time_comes_first() -> None:
    proposals = propose_rounds([_tried(1, 1e-3), _tried(2, 5e-3)], 100, 100, _SIZES)
    assert [one.task_id for one in proposals] == [2, 1]


def test_a_task_that_is_called_often_outranks_a_slower_one() -> None:
    proposals = propose_rounds([_tried(1, 1e-3, weight=10), _tried(2, 5e-3)], 100, 100, _SIZES)
    assert [one.task_id for one in proposals] == [1, 2]


def test_a_task_that_stopped_improving_frees_its_share() -> None:
    flat = _task(1, best_seconds=1e-3, trials=400, history=(1e-3,) * 25)
    improving = _task(2, best_seconds=8e-4, trials=48, history=(3e-3, 2e-3, 8e-4))
    assert propose_rounds([flat, improving], 100, 600, _SIZES)[0].task_id == 2


def test_a_first_round_of_failures_does_not_count_as_progress() -> None:
    recovered = _task(1, best_seconds=1e-3, trials=32, history=(float("inf"), 1e-3))
    new = _task(1, best_seconds=1e-3, trials=32, history=(1e-3,))
    assert improvement_exponent(recovered) == improvement_exponent(new)


def test_a_task_with_nothing_left_to_try_gets_nothing() -> None:
    proposals = propose_rounds([_tried(1, 1.0, exhausted=True), _tried(2, 1e-6)], 9, 99, _SIZES)
    assert [one.task_id for one in proposals] == [2]


def test_a_task_whose_trials_all_failed_is_tried_again_behind_the_others() -> None:
    failed = _task(1, trials=16, untuned_seconds=1e-3)
    proposals = propose_rounds([failed, _tried(2, 1e-3)], 100, 100, _SIZES)
    assert [one.task_id for one in proposals] == [2, 1]


def test_a_task_that_fails_again_and_again_falls_further_behind() -> None:
    def failed(number: int, rounds: int) -> TaskState:
        return _task(number, trials=16 * rounds, history=(float("inf"),) * rounds)

    proposals = propose_rounds([failed(1, 5), failed(2, 1)], 100, 100, _SIZES)
    assert [one.task_id for one in proposals] == [2, 1]


def test_of_two_equal_tasks_the_one_whose_trials_are_quicker_comes_first() -> None:
    slow = _tried(1, 1e-3, seconds_per_trial=9.0)
    quick = _tried(2, 1e-3, seconds_per_trial=0.3)
    proposals = propose_rounds([slow, quick], 100, 100, _SIZES)
    assert [one.task_id for one in proposals] == [2, 1]
    assert proposals[0].gain > 2 * proposals[1].gain


def test_a_task_without_a_rate_of_its_own_is_expected_to_take_what_the_others_take() -> None:
    known = _tried(1, 1e-3, seconds_per_trial=5.0)
    unknown = _tried(2, 1e-3)
    one, other = propose_rounds([known, unknown], 100, 100, _SIZES)
    assert one.gain == pytest.approx(other.gain)


def test_a_schedule_slower_than_the_program_as_it_is_comes_first() -> None:
    """The next round tries the program as it is, too."""
    slower = _task(1, best_seconds=1e-3, untuned_seconds=1e-4, trials=16, history=(1e-3,))
    proposals = propose_rounds([_tried(2, 2e-3), slower], 100, 100, _SIZES)
    assert [one.task_id for one in proposals] == [1, 2]


def test_a_schedule_that_stays_slower_than_the_program_as_it_is_expects_it_only_once() -> None:
    """Whatever the cause: it was tried by then."""
    slow = {"best_seconds": 1e-3, "untuned_seconds": 1e-4}
    before = _task(1, trials=16, history=(1e-3,), **slow)
    after = _task(1, trials=32, history=(1e-3, 1e-3), **slow)
    assert expected_saving(before, 16) == pytest.approx(9e-4)
    assert expected_saving(after, 16) < 1e-4


def test_gains_are_shares_of_the_latency_a_second() -> None:
    (only,) = propose_rounds([_tried(1, 1e-3)], 100, 100, _SIZES)
    # By the prior, its time falls with the root of its trials.
    assert only.gain == pytest.approx((1 - 2**-0.5) / (16 * DEFAULT_SECONDS_PER_TRIAL))


def test_a_model_a_thousand_times_as_slow_has_the_same_gains() -> None:
    quick = propose_rounds([_tried(1, 1e-6), _tried(2, 3e-6)], 100, 100, _SIZES)
    slow = propose_rounds([_tried(1, 1e-3), _tried(2, 3e-3)], 100, 100, _SIZES)
    assert [one.gain for one in slow] == pytest.approx([one.gain for one in quick])


def test_a_job_of_double_priority_has_double_the_gains() -> None:
    tasks = [_tried(1, 1e-3), _tried(2, 3e-3)]
    once = propose_rounds(tasks, 100, 100, _SIZES)
    twice = propose_rounds(tasks, 100, 100, _SIZES, priority=2.0)
    assert [one.gain for one in twice] == pytest.approx([2 * one.gain for one in once])


def test_a_small_first_round_counts_by_its_trials_not_as_a_round() -> None:
    """From 1 trial to 17 there are four doublings, from 16 to 32 there is one."""
    small = _task(1, best_seconds=1e-3, trials=17, history=(2e-3, 1e-3), history_trials=(1, 17))
    whole = _task(1, best_seconds=1e-3, trials=32, history=(2e-3, 1e-3), history_trials=(16, 32))
    assert improvement_exponent(small) < improvement_exponent(whole)


def test_a_first_trial_comes_before_every_other_jobs_further_ones() -> None:
    small = [_tried(1, 1.0), _task(2, untuned_seconds=1e-9)]
    urgent = [_tried(1, 1.0, seconds_per_trial=1e-2)]
    (first,) = propose_rounds(small, 100, 100, _SIZES, priority=0.1)
    (further,) = propose_rounds(urgent, 100, 100, _SIZES, priority=10.0)
    assert first.gain > further.gain


def test_first_rounds_leave_a_trial_for_each_untried_task_of_the_other_jobs() -> None:
    proposals = propose_rounds([_task(1), _task(2)], 20, 1000, _SIZES, untried_elsewhere=15)
    assert sum(one.size for one in proposals) == 5


def test_without_a_limit_of_trials_a_small_task_still_gets_a_small_first_round() -> None:
    tasks = [_task(1, untuned_seconds=98e-3), _task(2, untuned_seconds=2e-3)]
    sizes = {one.task_id: one.size for one in propose_rounds(tasks, 10**9, 10**9, _SIZES)}
    assert sizes == {1: 16, 2: 1}


@pytest.mark.parametrize(
    ("history", "lowest", "highest"),
    [
        ((1e-3,) * 40, 0.0, 0.01),
        ((1e-3, 1e-3), 0.15, 0.25),
        ((8e-3, 4e-3, 2e-3, 1e-3), 0.8, 1.0),
        ((1.0, 1e-9), 1.0, 1.0),
    ],
    ids=["stalled for long", "stalled once", "halved each round", "implausibly fast"],
)
def test_the_exponent_goes_by_the_tasks_own_past(
    history: tuple[float, ...], lowest: float, highest: float
) -> None:
    task = _task(1, best_seconds=history[-1], trials=16 * len(history), history=history)
    assert lowest <= improvement_exponent(task) <= highest


@pytest.mark.parametrize("left", [0, -1])
def test_a_spent_budget_proposes_nothing(left: int) -> None:
    assert propose_rounds([_task(1)], left, 10, _SIZES) == []


@given(
    untuned=st.lists(st.floats(0, 1), min_size=1, max_size=30),
    left=st.integers(1, 500),
    spent=st.integers(0, 500),
)
def test_first_rounds_never_ask_for_more_than_is_left(
    untuned: list[float], left: int, spent: int
) -> None:
    tasks = [_task(number, untuned_seconds=seconds) for number, seconds in enumerate(untuned)]
    proposals = propose_rounds(tasks, left, left + spent, _SIZES)
    assert sum(one.size for one in proposals) <= left
    assert all(1 <= one.size <= _SIZES.largest for one in proposals)
    assert len(proposals) == min(left, len(tasks))
