"""Two jobs that share a workload, whichever database is behind the store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cache_samples import (
    candidates,
    claim_new_round,
    conv,
    propose_all,
    start_job,
    success,
)
from processes import start
from queue_samples import TRIALS, claim_new_searched, claim_searched, split, submit, submit_searched
from store_contract import StoreFixtures

from tunebook.cache.errors import LeaseLostError
from tunebook.cache.queue.submissions import BudgetLimits
from tunebook.cache.store import RoundProposal, Store

LEASE = 10.0


class SharedRoundsFixtures(StoreFixtures):
    @pytest.fixture
    def now(self) -> list[float]:
        """What the clock of `other_worker` says, for the test to change."""
        return [1000.0]

    @pytest.fixture
    def other_worker(self, url: str, now: list[float]) -> Iterator[Store]:
        with Store.open(url, lease_seconds=LEASE, monotonic=lambda: now[0]) as store:
            yield store


class SharedRoundsContract(SharedRoundsFixtures):
    @pytest.mark.parametrize(
        ("first_emulated", "second_emulated"), [(False, False), (True, False), (False, True)]
    )
    def test_a_round_that_another_job_only_proposed_is_taken_over(
        self, store: Store, first_emulated: bool, second_emulated: bool
    ) -> None:
        first = start_job(store, conv(56), conv(28), emulated=first_emulated)
        second = start_job(store, conv(56), emulated=second_emulated)
        assert propose_all(store, first, 4) == 2
        assert propose_all(store, second, 6) == 1
        claimed = store.claim_round("worker", second)
        assert claimed is not None
        (task,) = store.task_states(second)
        assert (claimed.task_id, claimed.key, claimed.size) == (task.id, task.key, 6)
        assert claimed.emulated is second_emulated
        assert store.propose_rounds(first, []) == 1
        assert (store.budget(first).granted, store.budget(second).granted) == (0, 6)

    def test_a_round_that_another_job_works_on_is_left_to_it(self, store: Store) -> None:
        first, second = start_job(store, conv(56)), start_job(store, conv(56), conv(28))
        claimed = claim_new_round(store, first)
        assert propose_all(store, second, 4) == 1
        store.beat(claimed.id, claimed.epoch)
        store.finish_round(claimed.id, claimed.epoch)
        assert propose_all(store, second, 4) == 2

    def test_a_round_of_a_dead_worker_of_another_job_is_closed_and_opened_anew(
        self, store: Store, other_worker: Store, now: list[float]
    ) -> None:
        first, second = start_job(store, conv(56)), start_job(store, conv(56), conv(28))
        claimed = claim_new_round(store, first, size=8)
        store.store_candidates(claimed.id, claimed.epoch, candidates("a", "b"))
        store.store_result(claimed.id, claimed.epoch, 0, success(1.0))
        assert propose_all(other_worker, second, 4) == 1
        now[0] += LEASE + 1
        assert propose_all(other_worker, second, 4) == 2
        taken = other_worker.claim_round("second", second)
        assert taken is not None
        assert (taken.key, taken.size, taken.slots) == (claimed.key, 4, ())
        with pytest.raises(LeaseLostError):
            store.beat(claimed.id, claimed.epoch)
        assert (store.budget(first).granted, store.budget(first).spent) == (1, 1)
        assert store.budget(second).granted == 4

    def test_a_round_of_a_killed_run_of_another_job_is_taken_over_at_once(
        self, store: Store, url: str
    ) -> None:
        first, second = start_job(store, conv(56)), start_job(store, conv(56), conv(28))
        propose_all(store, first, 8)
        victim = start("hold", url, first)
        assert victim.stdout is not None
        victim.stdout.readline()
        assert propose_all(store, second, 4) == 1
        victim.kill()
        victim.wait()
        victim.stdout.close()
        assert propose_all(store, second, 4) == 2
        assert (store.budget(first).granted, store.budget(first).spent) == (1, 1)

    def test_a_taken_over_round_may_be_proposed_again_later(self, store: Store) -> None:
        first, second = start_job(store, conv(56)), start_job(store, conv(56), conv(28))
        propose_all(store, first, 4)
        claimed = claim_new_round(store, second)
        assert propose_all(store, first, 4) == 0
        store.finish_round(claimed.id, claimed.epoch)
        assert propose_all(store, first, 4) == 1

    def test_withdrawing_closes_what_nobody_ever_claimed(self, store: Store) -> None:
        job = start_job(store, conv(56), conv(28), conv(14))
        claimed = claim_new_round(store, job, size=8)
        store.withdraw_rounds(job)
        assert store.propose_rounds(job, []) == 1
        assert store.claim_round("second", job) is None
        store.beat(claimed.id, claimed.epoch)
        assert store.budget(job).granted == 8

    def test_a_withdrawn_job_is_resumed_as_it_was(self, store: Store) -> None:
        job = start_job(store)
        propose_all(store, job, 8)
        store.withdraw_rounds(job)
        assert store.job_is_open(job)
        assert start_job(store) == job
        assert claim_new_round(store, job, size=4).size == 4

    def test_withdrawing_leaves_the_rounds_of_other_jobs(self, store: Store) -> None:
        first, second = start_job(store, conv(56)), start_job(store, conv(28))
        propose_all(store, first, 4)
        propose_all(store, second, 4)
        store.withdraw_rounds(first)
        assert store.claim_round("worker", second) is not None

    def test_whoever_works_for_a_job_that_another_finished_is_told_so(self, store: Store) -> None:
        job = start_job(store, conv(56), conv(28))
        claimed = claim_new_round(store, job)
        (task, _) = store.task_states(job)
        assert store.job_is_open(job)
        store.finish_job(job, "done", "budget")
        assert not store.job_is_open(job)
        for write in (store.beat, store.finish_round):
            with pytest.raises(LeaseLostError, match="closed"):
                write(claimed.id, claimed.epoch)
        with pytest.raises(LeaseLostError, match="closed"):
            store.store_candidates(claimed.id, claimed.epoch, candidates("a"))
        assert store.propose_rounds(job, [RoundProposal(task.id, 4, 1.0)]) == 0
        assert store.claim_round("worker", job) is None

    def test_a_result_measured_while_another_finished_the_job_is_kept(self, store: Store) -> None:
        job = start_job(store)
        claimed = claim_new_round(store, job)
        store.store_candidates(claimed.id, claimed.epoch, candidates("a"))
        store.finish_job(job, "done", "budget")
        assert not store.store_result(claimed.id, claimed.epoch, 0, success(1.0)).repeated
        assert (store.budget(job).granted, store.budget(job).spent) == (1, 1)


def _propose(store: Store, job: int, gain: float) -> int:
    """A round of 4 trials for each task of a job, all with the same gain."""
    tasks = store.task_states(job)
    return store.propose_rounds(job, [RoundProposal(task.id, 4, gain) for task in tasks])


class SubmittedRoundsContract(SharedRoundsFixtures):
    """Two submitted jobs with a workload in common, each with a budget of its own."""

    @pytest.mark.parametrize(
        ("first_gain", "second_gain", "has_it"), [(2.0, 1.0, 0), (1.0, 2.0, 1), (1.0, 1.0, 0)]
    )
    def test_of_two_jobs_that_are_searched_for_the_one_that_gains_most_has_the_round(
        self, store: Store, first_gain: float, second_gain: float, has_it: int
    ) -> None:
        jobs = submit_searched(store, conv(56)), submit_searched(store, conv(56), conv(28))
        _propose(store, jobs[0], first_gain)
        assert _propose(store, jobs[1], second_gain) == 1 + has_it
        rounds = [claimed for _ in range(3) if (claimed := claim_searched(store))]
        (shared,) = [one for one in rounds if one.key.workload == conv(56).key]
        assert shared.job_id == jobs[has_it]

    def test_a_round_that_gains_less_now_is_let_go(self, store: Store) -> None:
        first, second = submit_searched(store, conv(56)), submit_searched(store, conv(56), conv(28))
        for gain in (3.0, 1.0):
            _propose(store, first, gain)
        assert _propose(store, second, 2.0) == 2

    def test_a_round_whose_budget_grants_nothing_stands_in_nobodys_way(self, store: Store) -> None:
        first = submit_searched(store, conv(56), conv(14), budget=BudgetLimits(trials=4))
        second = submit_searched(store, conv(56), conv(28))
        shared, own = store.task_states(first)
        store.propose_rounds(first, [RoundProposal(own.id, 4, 9.0)])
        assert claim_searched(store) is not None
        store.propose_rounds(first, [RoundProposal(shared.id, 4, 9.0)])
        assert _propose(store, second, 1.0) == 2

    def test_a_round_that_a_dead_worker_began_is_gone_on_with(
        self, store: Store, other_worker: Store, now: list[float]
    ) -> None:
        first, second = submit_searched(store, conv(56)), submit_searched(store, conv(56), conv(28))
        claimed = claim_new_searched(store, first)
        store.store_candidates(claimed.id, claimed.epoch, candidates("a"))
        assert claim_searched(other_worker) is None
        now[0] += LEASE + 1
        assert _propose(other_worker, second, 9.0) == 1
        begun = other_worker.claim_round("successor", first)
        assert begun is not None
        assert begun.id == claimed.id
        assert [slot.candidate.module_hash for slot in begun.slots] == ["a"]

    def test_a_recovery_takes_over_what_is_only_searched_for(self, store: Store) -> None:
        first = submit_searched(store, conv(56))
        _propose(store, first, 9.0)
        second = submit(store, conv(56), conv(28))
        split(store, conv(56), conv(28))
        assert _propose(store, second, 0.0) == 2

    def test_a_local_command_beside_a_submitted_job_has_job_and_budget_of_its_own(
        self, store: Store
    ) -> None:
        submitted = submit_searched(store, conv(56))
        local = start_job(store, conv(56), trials=7)
        assert local != submitted
        assert start_job(store, conv(56), trials=7) == local
        assert store.budget(local).limit == 7
        assert store.queue.job(submitted).budget.limits == TRIALS
        _propose(store, submitted, 9.0)
        assert _propose(store, local, 0.0) == 1
        store.finish_job(local, "done")
        assert store.job_is_open(submitted)
