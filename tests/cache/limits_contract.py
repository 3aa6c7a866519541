"""What a budget limits, by one job or several, whichever database is behind the store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest
from cache_samples import BOARD, candidates, conv, propose_all, success
from lease_contract import LEASE, Clock, WallClock
from processes import run_at_once, start
from queue_samples import (
    claim_new_searched,
    claim_searched,
    claim_split,
    submit,
    submit_searched,
)
from store_contract import StoreFixtures

from tunebook.cache.errors import LeaseLostError, NotFoundError
from tunebook.cache.queue.submissions import BudgetLimits, JobState
from tunebook.cache.store import Store

# What is reached by `_reach`, and what is not.
LIMITS = {
    "time": BudgetLimits(seconds=60.0),
    "board-time": BudgetLimits(board_seconds=60.0),
    "deadline": BudgetLimits(deadline=datetime.now(timezone.utc) + timedelta(hours=3)),
}
UNREACHED = BudgetLimits(
    trials=10**6,
    seconds=1e6,
    board_seconds=1e6,
    deadline=datetime(2999, 1, 1, tzinfo=timezone.utc),
)


class LimitsContract(StoreFixtures):
    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def wall(self, monkeypatch: pytest.MonkeyPatch) -> WallClock:
        return WallClock(monkeypatch)

    @pytest.fixture
    def reach(self, store: Store, wall: WallClock) -> Callable[[str, int], None]:
        """Makes a budget reach one of LIMITS, by what is used for a job that has a round."""

        def reach(limit: str, job: int) -> None:
            budget = store.queue.job(job).budget
            if limit == "time":
                store.queue.use_seconds(budget.id, budget.used_seconds, 60.0)
            elif limit == "deadline":
                wall.step(4)
            else:
                claimed = claim_new_searched(store, job, size=1)
                store.store_candidates(claimed.id, claimed.epoch, candidates("costly"))
                result = success(1.0, board_seconds=60.0)
                store.store_result(claimed.id, claimed.epoch, 0, result)
                store.finish_round(claimed.id, claimed.epoch)

        return reach

    @pytest.mark.parametrize("limit", LIMITS)
    def test_a_budget_that_is_over_grants_nothing(
        self, store: Store, reach: Callable[[str, int], None], limit: str
    ) -> None:
        job = submit_searched(store, conv(56), conv(28), budget=LIMITS[limit])
        reach(limit, job)
        propose_all(store, job, 4)
        granted = store.queue.job(job).budget.trials_granted
        assert claim_searched(store) is None
        assert store.claim_round("worker", job) is None
        after = store.queue.job(job).budget
        assert (after.over, after.trials_granted) == (limit, granted)
        assert store.queue.searching([BOARD]) == ()

    @pytest.mark.parametrize("limit", LIMITS)
    def test_a_round_in_flight_is_finished_and_the_next_is_not_granted(
        self, store: Store, reach: Callable[[str, int], None], limit: str
    ) -> None:
        job = submit_searched(store, conv(56), conv(28), budget=LIMITS[limit])
        second = store.task_states(job)[1]
        claimed = claim_new_searched(store, job, size=4)
        if limit == "board-time":
            store.store_candidates(claimed.id, claimed.epoch, candidates("costly"))
            costly = success(1.0, board_seconds=60.0)
            store.store_result(claimed.id, claimed.epoch, 0, costly)
        else:
            reach(limit, job)
        store.beat(claimed.id, claimed.epoch)
        assert store.queue.end_spent() == ()
        assert store.claim_round("worker", job, task_ids={second.id}) is None
        store.finish_round(claimed.id, claimed.epoch)
        assert store.queue.end_spent() == (job,)

    @pytest.mark.parametrize("limit", LIMITS)
    def test_a_dead_worker_s_round_is_not_run_on_beyond_the_limit(
        self, store: Store, url: str, clock: Clock, reach: Callable[[str, int], None], limit: str
    ) -> None:
        job = submit_searched(store, conv(56), conv(28), budget=LIMITS[limit])
        first, _ = store.task_states(job)
        with Store.open(url, lease_seconds=LEASE, monotonic=clock) as observer:
            claimed = claim_new_searched(store, job, size=4)
            store.store_candidates(claimed.id, claimed.epoch, candidates("costly"))
            if limit == "board-time":
                costly = success(1.0, board_seconds=60.0)
                store.store_result(claimed.id, claimed.epoch, 0, costly)
            else:
                reach(limit, job)
            assert claim_searched(observer) is None
            clock.now += LEASE + 1
            assert observer.claim_round("successor", job, task_ids={first.id}) is None
            assert observer.queue.end_spent() == (job,)
        ended = store.queue.job(job)
        assert (ended.state, ended.reason) == (JobState.DONE, limit)
        assert ended.budget.trials_in_flight == 0
        with pytest.raises(LeaseLostError):
            store.beat(claimed.id, claimed.epoch)

    @pytest.mark.parametrize("limit", LIMITS)
    def test_jobs_whose_budget_is_over_end_with_the_reason(
        self, store: Store, reach: Callable[[str, int], None], limit: str
    ) -> None:
        job = submit_searched(store, conv(56), conv(28), budget=LIMITS[limit])
        going_on = submit_searched(store, conv(14), budget=UNREACHED)
        assert store.queue.end_spent() == ()
        reach(limit, job)
        assert store.queue.end_spent() == (job,)
        ended = store.queue.job(job)
        assert (ended.state, ended.reason) == (JobState.DONE, limit)
        assert ended.finished_at is not None
        assert store.queue.job(going_on).finished_at is None

    @pytest.mark.parametrize("limit", ["time", "deadline"])
    def test_a_job_whose_budget_is_over_is_not_split_any_more(
        self, store: Store, reach: Callable[[str, int], None], limit: str
    ) -> None:
        job = submit(store, budget=LIMITS[limit])
        reach(limit, job)
        assert claim_split(store) is None
        assert store.queue.end_spent() == (job,)

    def test_a_stage_that_is_worked_on_is_not_ended_under_its_worker(
        self, store: Store, wall: WallClock
    ) -> None:
        job = submit(store, budget=LIMITS["deadline"])
        claimed = claim_split(store)
        assert claimed is not None
        wall.step(4)
        assert store.queue.end_spent() == ()
        store.queue.release_stage(job, claimed.epoch)
        assert store.queue.end_spent() == (job,)

    def test_a_stage_of_a_dead_worker_keeps_no_job_open(
        self, store: Store, url: str, wall: WallClock
    ) -> None:
        job = submit(store, budget=LIMITS["deadline"])
        victim = start("hold_split", url)
        assert victim.stdout is not None
        victim.stdout.readline()
        wall.step(4)
        assert store.queue.end_spent() == ()
        victim.kill()
        victim.wait()
        victim.stdout.close()
        assert store.queue.end_spent() == (job,)

    def test_a_job_ends_when_all_its_tasks_are_exhausted(self, store: Store) -> None:
        job = submit_searched(store, conv(56), conv(28))
        first, second = store.task_states(job)
        store.set_exhausted(first.id)
        assert store.queue.end_spent() == ()
        store.set_exhausted(second.id)
        assert store.queue.end_spent() == (job,)
        assert store.queue.job(job).reason == "exhausted"

    def test_a_budget_of_one_trial_is_one_trial(self, store: Store) -> None:
        job = submit_searched(store, conv(56), conv(28), budget=BudgetLimits(trials=1))
        claimed = claim_new_searched(store, job, size=8)
        assert claimed.size == 1
        assert claim_searched(store) is None
        store.store_candidates(claimed.id, claimed.epoch, candidates("a", "b"))
        store.store_result(claimed.id, claimed.epoch, 0, success(1.0))
        store.finish_round(claimed.id, claimed.epoch)
        assert store.queue.end_spent() == (job,)
        assert store.queue.job(job).budget.trials_spent == 1

    def test_trials_in_flight_that_are_given_back_are_granted_to_another_job(
        self, store: Store
    ) -> None:
        shared, _ = store.queue.create_budget("night", BudgetLimits(trials=8))
        first = submit_searched(store, conv(56), budget=shared)
        second = submit_searched(store, conv(28), budget=shared)
        claimed = claim_new_searched(store, first, size=8)
        propose_all(store, second, 8)
        assert claim_searched(store) is None
        assert store.queue.end_spent() == ()
        store.finish_round(claimed.id, claimed.epoch)
        store.set_exhausted(store.task_states(first)[0].id)
        assert store.queue.end_spent() == (first,)
        granted = claim_searched(store)
        assert granted is not None
        assert (granted.job_id, granted.size) == (second, 8)

    def test_a_budget_without_a_limit_of_trials_grants_what_is_asked(self, store: Store) -> None:
        job = submit_searched(store, budget=BudgetLimits(seconds=60.0))
        assert claim_new_searched(store, job, size=64).size == 64
        assert store.queue.job(job).budget.trials_left is None

    def test_seconds_of_workers_at_the_same_time_count_once(self, store: Store) -> None:
        budget, _ = store.queue.create_budget("night", BudgetLimits(seconds=60.0))
        assert store.queue.use_seconds(budget, 0.0, 1.5) == 1.5
        assert store.queue.use_seconds(budget, 0.0, 2.0) == 1.5
        assert store.queue.use_seconds(budget, 1.5, 2.0) == 3.5
        assert store.queue.budget(budget).seconds_left == 56.5
        with pytest.raises(NotFoundError):
            store.queue.use_seconds(budget + 1, 0.0, 1.0)

    def test_a_task_tells_what_its_trials_take(self, store: Store) -> None:
        job = submit_searched(store)
        (task,) = store.task_states(job)
        assert (task.seconds_per_trial, task.board_seconds_per_trial) == (None, None)
        for name, seconds, board_seconds in (("a", 6.0, 1.0), ("b", None, 0.5), ("c", 2.0, 3.0)):
            claimed = claim_new_searched(store, job, size=1)
            store.store_candidates(claimed.id, claimed.epoch, candidates(name))
            result = success(1.0, board_seconds=board_seconds)
            store.store_result(claimed.id, claimed.epoch, 0, result)
            store.finish_round(claimed.id, claimed.epoch, seconds)
        (task,) = store.task_states(job)
        assert (task.seconds_per_trial, task.board_seconds_per_trial) == (4.0, 1.5)


class SharingProcessesContract(StoreFixtures):
    def test_eight_processes_spend_exactly_what_several_jobs_share(
        self, store: Store, url: str
    ) -> None:
        shared, _ = store.queue.create_budget("night", BudgetLimits(trials=60))
        for first in (1, 9, 17):
            workloads = [conv(size) for size in range(first, first + 8)]
            job = submit_searched(store, *workloads, budget=shared)
            propose_all(store, job, 4)
        spent = run_at_once(8, "work_searched", url)
        assert sum(spent) == 60
        budget = store.queue.budget(shared)
        assert (budget.trials_granted, budget.trials_spent) == (60, 60)
        assert len(store.queue.end_spent()) == 3

    def test_several_processes_may_do_all_that_a_fleet_does_at_once(
        self, store: Store, url: str
    ) -> None:
        shared, _ = store.queue.create_budget("night", BudgetLimits(trials=10**6))
        trials = sum(run_at_once(3, "live", url, shared, 6))
        for job in store.queue.jobs(limit=500):
            store.queue.cancel(job.id)
        budgets = {job.budget for job in store.queue.jobs(limit=500)}
        assert trials > 0
        assert [one for one in budgets if one.trials_granted != one.trials_spent] == []
        assert sum(one.board_seconds for one in budgets) == 0.25 * trials

    def test_no_second_is_counted_twice_by_processes_at_once(self, store: Store, url: str) -> None:
        budget, _ = store.queue.create_budget("night", BudgetLimits(seconds=1e6))
        added = run_at_once(2, "use_seconds", url, budget, 25)
        assert store.queue.budget(budget).used_seconds == sum(added)
        assert max(added) > 0


class SharedLimitsContract(LimitsContract, SharingProcessesContract):
    """All of the above."""
