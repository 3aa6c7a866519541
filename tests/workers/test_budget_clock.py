"""The time of a budget, on a worker's own clock and in a real database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tunebook.cache.queue import shared_budgets
from tunebook.cache.queue.submissions import BudgetLimits
from tunebook.cache.store import Store
from tunebook.workers.rounds.budget_clock import BudgetClock


class Clock:
    """A monotonic clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(str(tmp_path / "tunebook.db")) as opened:
        yield opened


def budget_of(store: Store, limits: BudgetLimits) -> int:
    return store.queue.create_budget("night", limits)[0]


def test_what_is_worked_for_a_budget_is_counted_to_the_end(store: Store) -> None:
    budget_id, clock = budget_of(store, BudgetLimits(seconds=60)), Clock()
    with BudgetClock(store.queue, budget_id, monotonic=clock) as watch:
        clock.now += 7.0
        assert not watch.over
    clock.now += 100.0
    assert store.queue.budget(budget_id).used_seconds == 7.0


def test_of_two_who_work_at_the_same_time_one_counts(
    store: Store, eventually: Callable[..., None]
) -> None:
    budget_id, clock = budget_of(store, BudgetLimits(seconds=60)), Clock()
    with (
        BudgetClock(store.queue, budget_id, monotonic=clock),
        BudgetClock(store.queue, budget_id, monotonic=clock),
    ):
        for _ in range(2):
            before = store.queue.budget(budget_id).used_seconds
            clock.now += 5.0
            eventually(
                lambda before=before: store.queue.budget(budget_id).used_seconds > before,
                "the time is counted",
            )
    assert store.queue.budget(budget_id).used_seconds == 10.0


def test_a_budget_whose_time_is_used_up_is_over(
    store: Store, eventually: Callable[..., None]
) -> None:
    budget_id, clock = budget_of(store, BudgetLimits(seconds=5)), Clock()
    with BudgetClock(store.queue, budget_id, monotonic=clock) as watch:
        assert not watch.over
        clock.now += 5.0
        eventually(lambda: watch.over, "it is over")


def test_a_budget_whose_deadline_comes_is_over(
    store: Store, eventually: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wall clock is set to it: one that came by itself could come before the budget is made."""
    deadline = datetime.now(timezone.utc) + timedelta(hours=1)
    budget_id = budget_of(store, BudgetLimits(deadline=deadline))
    with BudgetClock(store.queue, budget_id) as watch:
        assert not watch.over
        monkeypatch.setattr(shared_budgets, "now", lambda: deadline)
        eventually(lambda: watch.over, "it is over")


def test_a_budget_that_is_over_already_is_over_from_the_first_moment(store: Store) -> None:
    budget_id = budget_of(store, BudgetLimits(seconds=5))
    store.queue.use_seconds(budget_id, 0.0, 6.0)
    with BudgetClock(store.queue, budget_id) as watch:
        assert watch.over
