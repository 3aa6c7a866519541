"""Which task gets the next round."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.store import TaskState
from tunebook.tuner.search.allocation import RoundSizes, propose_rounds

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
    return _task(number, best_seconds=seconds, trials=16, history=(seconds,), **changes)


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
    (proposal,) = propose_rounds([recovered], 100, 200, _SIZES)
    assert proposal.gain == pytest.approx(0.8 * 1e-3 / 32)


def test_a_task_with_nothing_left_to_try_gets_nothing() -> None:
    proposals = propose_rounds([_tried(1, 1.0, exhausted=True), _tried(2, 1e-6)], 9, 99, _SIZES)
    assert [one.task_id for one in proposals] == [2]


def test_a_task_whose_trials_all_failed_is_tried_again_behind_the_others() -> None:
    failed = _task(1, trials=16, untuned_seconds=1e-3)
    proposals = propose_rounds([failed, _tried(2, 1e-3)], 100, 100, _SIZES)
    assert [one.task_id for one in proposals] == [2, 1]


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
