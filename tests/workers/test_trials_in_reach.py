"""Budgets of time are planned with as trials, at the rate that trials had."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.queue.submissions import BudgetLimits, BudgetUse
from tunebook.cache.work import UNLIMITED_TRIALS, TaskState
from tunebook.workers.rounds.trials_in_reach import TrialsInReach, trials_in_reach

NOW = datetime(2026, 7, 1, 22, 0, tzinfo=timezone.utc)
TASK = TaskState(
    id=1,
    key=ScheduleKey("relu", "f32[8] -> f32[8]", "llvm", "tvm", "0123"),
    weight=1,
    flops=8.0,
    untuned_seconds=1e-3,
    best_seconds=1e-4,
    served_seconds=1e-4,
    trials=10,
    history=(1e-4,),
    exhausted=False,
    failures={},
    seconds_per_trial=0.5,
    board_seconds_per_trial=0.2,
)


def used(limits: BudgetLimits, **change: object) -> BudgetUse:
    """A budget of an hour ago, half of what is limited used."""
    use = BudgetUse(
        id=1,
        name="",
        limits=limits,
        trials_spent=40,
        trials_granted=50,
        used_seconds=60.0,
        board_seconds=10.0,
        created_at=NOW - timedelta(hours=1),
        over=None,
    )
    return replace(use, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("limits", "left", "total"),
    [
        pytest.param(BudgetLimits(trials=100), 50, 100, id="trials"),
        pytest.param(BudgetLimits(seconds=120.0), 120, 240, id="seconds"),
        pytest.param(BudgetLimits(board_seconds=20.0), 50, 100, id="board seconds"),
        pytest.param(BudgetLimits(deadline=NOW + timedelta(seconds=10)), 20, 7220, id="deadline"),
        pytest.param(BudgetLimits(trials=100, seconds=70.0), 20, 100, id="the nearest of two"),
        pytest.param(
            BudgetLimits(deadline=NOW - timedelta(seconds=1)), 0, 7198, id="a deadline that is past"
        ),
    ],
)
def test_what_limits_most_says_how_many_trials_are_left(
    limits: BudgetLimits, left: int, total: int
) -> None:
    assert trials_in_reach(used(limits), [TASK], NOW) == TrialsInReach(left, total)


def test_before_the_first_round_a_trial_is_taken_for_a_second() -> None:
    new = replace(TASK, trials=0, seconds_per_trial=None, board_seconds_per_trial=None)
    reach = trials_in_reach(used(BudgetLimits(seconds=160.0)), [new], NOW)
    assert reach == TrialsInReach(100, 160)


def test_what_is_not_limited_never_ends() -> None:
    reach = trials_in_reach(used(BudgetLimits(trials=None)), [TASK], NOW)
    assert reach == TrialsInReach(UNLIMITED_TRIALS, UNLIMITED_TRIALS)
