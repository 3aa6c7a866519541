"""Jobs for the same, which share a budget, whichever database is behind the store."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from cache_samples import A53, BOARD, conv, propose_all
from queue_samples import (
    TRIALS,
    claim_new_searched,
    request_for,
    submit,
    submit_searched,
)
from store_contract import StoreFixtures

from tunebook.cache.errors import (
    LeaseLostError,
)
from tunebook.cache.queue.submissions import BudgetLimits, JobState
from tunebook.cache.store import Store

LATER = datetime(2999, 1, 1, tzinfo=timezone.utc)
EVEN_LATER = LATER + timedelta(days=1)


class JoiningContract(StoreFixtures):
    @pytest.mark.parametrize(
        ("first", "second", "joined"),
        [
            (BudgetLimits(trials=5), BudgetLimits(trials=9), BudgetLimits(trials=9)),
            (BudgetLimits(trials=9), BudgetLimits(trials=5), BudgetLimits(trials=9)),
            (
                BudgetLimits(trials=5, seconds=9.0, deadline=LATER),
                BudgetLimits(trials=6, seconds=3.0, deadline=EVEN_LATER),
                BudgetLimits(trials=6, seconds=9.0, deadline=EVEN_LATER),
            ),
        ],
    )
    def test_jobs_for_the_same_share_a_budget_with_the_larger_limits(
        self, store: Store, first: BudgetLimits, second: BudgetLimits, joined: BudgetLimits
    ) -> None:
        one, other = (store.queue.job(submit(store, budget=limits)) for limits in (first, second))
        assert one.id != other.id
        assert one.budget.id == other.budget.id
        assert store.queue.budget(one.budget.id).limits == joined

    @pytest.mark.parametrize(
        "change", ["digest", "shapes", "target", "choices", "board_class", "limits", "shared"]
    )
    def test_a_job_for_something_else_has_another_budget(self, store: Store, change: str) -> None:
        first = store.queue.job(submit(store))
        request, budget = request_for(), TRIALS
        if change == "limits":
            # The larger of a limit and none would be none.
            budget = BudgetLimits(seconds=60.0)
        elif change != "shared":
            other = {"digest": "f" * 64}.get(change, A53)
            request = replace(request, **{change: other})
        limits = store.queue.create_budget("night", TRIALS)[0] if change == "shared" else budget
        second = store.queue.job(store.queue.submit(request, limits).job_id)
        assert second.budget.id != first.budget.id
        assert store.queue.budget(first.budget.id).limits == TRIALS

    def test_a_shared_budget_is_never_joined(self, store: Store) -> None:
        shared, _ = store.queue.create_budget("night", TRIALS)
        submit(store, budget=shared)
        assert store.queue.job(submit(store)).budget.id != shared

    def test_the_budget_of_a_job_that_has_ended_is_not_joined(self, store: Store) -> None:
        first = store.queue.cancel(submit(store))
        assert store.queue.job(submit(store)).budget.id != first.budget.id

    def test_a_job_that_joins_goes_on_where_the_other_one_is(self, store: Store) -> None:
        first = submit_searched(store, conv(56), conv(28))
        second = submit(store, conv(56), conv(28))
        assert store.queue.job(second).state is store.queue.job(first).state
        assert [job.job_id for job in store.queue.searching([BOARD])] == [first, second]
        keys = [task.key for task in store.task_states(second)]
        assert keys == [task.key for task in store.task_states(first)]
        assert propose_all(store, second, 4) == 2

    def test_cancelling_one_leaves_the_other_that_joined(self, store: Store) -> None:
        first = submit_searched(store)
        second = submit(store)
        claimed = claim_new_searched(store, first)
        store.queue.cancel(first)
        with pytest.raises(LeaseLostError):
            store.beat(claimed.id, claimed.epoch)
        assert store.queue.job(second).state is not JobState.CANCELLED
        assert claim_new_searched(store, second).size == 8

    def test_more_trials_by_joining_try_exhausted_tasks_again(self, store: Store) -> None:
        first = submit_searched(store)
        store.set_exhausted(store.task_states(first)[0].id)
        second = submit(store)
        assert store.task_states(second)[0].exhausted
        third = submit(store, budget=BudgetLimits(trials=200))
        assert not any(
            task.exhausted for job in (first, second, third) for task in store.task_states(job)
        )

    def test_a_new_budget_tries_exhausted_tasks_again(self, store: Store) -> None:
        first = submit_searched(store)
        store.set_exhausted(store.task_states(first)[0].id)
        store.queue.end_spent()
        assert not store.task_states(submit_searched(store))[0].exhausted
