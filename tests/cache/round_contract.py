"""Jobs, budgets, rounds and slots, whichever database is behind the store."""

from __future__ import annotations

import math

import pytest
from cache_samples import (
    A53,
    A76,
    BOARD,
    TRACE,
    candidates,
    claim_new_round,
    conv,
    failure,
    measure,
    model_of,
    propose_all,
    start_job,
    success,
)
from store_contract import StoreFixtures

from tunebook.cache.errors import BudgetError, DatabaseError, LeaseLostError
from tunebook.cache.records import Candidate, ErrorClass
from tunebook.cache.store import RoundProposal, Store


class JobContract(StoreFixtures):
    def test_a_job_has_the_tasks_of_its_model_in_order(self, store: Store) -> None:
        job = start_job(store, conv(56), conv(28), conv(14))
        keys = [task.key for task in store.task_states(job)]
        assert keys == [conv(size).key.on(A76) for size in (56, 28, 14)]

    def test_a_workload_that_a_model_holds_twice_is_one_task(self, store: Store) -> None:
        job = start_job(store, conv(56), conv(28), conv(56))
        assert [task.weight for task in store.task_states(job)] == [2, 1]

    def test_submitting_again_resumes_the_open_job(self, store: Store) -> None:
        assert start_job(store) == start_job(store)

    @pytest.mark.parametrize("other", [{"target": A53}, {"emulated": True}])
    def test_another_target_or_kind_of_board_is_another_job(
        self, store: Store, other: dict[str, object]
    ) -> None:
        assert start_job(store) != start_job(store, **other)  # type: ignore[arg-type]

    def test_a_finished_job_is_not_resumed(self, store: Store) -> None:
        first = start_job(store)
        store.finish_job(first, "done")
        assert start_job(store) != first

    def test_the_total_of_trials_is_for_all_jobs_of_the_model(self, store: Store) -> None:
        measure(store, conv(), {"a": success(1.0), "b": failure()})
        job = start_job(store, trials=5)
        budget = store.budget(job)
        assert (budget.limit, budget.granted, budget.spent) == (5, 2, 2)

    def test_more_trials_are_added_to_those_spent(self, store: Store) -> None:
        measure(store, conv(), {"a": success(1.0), "b": failure()})
        model = store.save_model(model_of([conv()]))
        store.submit_job(model, BOARD, trials=2, more=None)
        job = store.submit_job(model, BOARD, trials=None, more=7)
        assert store.budget(job).limit == 9

    def test_more_never_lowers_a_total_that_is_not_spent(self, store: Store) -> None:
        measure(store, conv(), {"a": success(1.0), "b": failure()})
        model = store.save_model(model_of([conv()]))
        store.submit_job(model, BOARD, trials=100, more=None)
        job = store.submit_job(model, BOARD, trials=None, more=7)
        assert store.budget(job).limit == 100

    def test_a_total_below_what_was_spent_leaves_nothing_to_grant(self, store: Store) -> None:
        measure(store, conv(), {"a": success(1.0), "b": failure()})
        job = start_job(store, trials=1)
        assert store.budget(job).limit == 2
        propose_all(store, job, 8)
        assert store.claim_round("worker", job) is None

    def test_trials_that_were_not_spent_are_taken_back_and_granted_ones_stay(
        self, store: Store
    ) -> None:
        job = start_job(store, trials=10)
        claim_new_round(store, job, size=4)
        store.lower_budget(job, 3)
        assert store.budget(job).limit == 7
        store.lower_budget(job, 100)
        budget = store.budget(job)
        assert (budget.limit, budget.granted) == (4, 4)

    def test_a_total_and_more_at_once_are_an_error(self, store: Store) -> None:
        model = store.save_model(model_of([conv()]))
        with pytest.raises(BudgetError, match="--more"):
            store.submit_job(model, BOARD, trials=5, more=5)

    def test_what_was_found_out_about_a_task_holds_for_the_next_job(self, store: Store) -> None:
        first = start_job(store)
        (task,) = store.task_states(first)
        store.set_untuned_seconds(task.id, 0.5)
        store.set_exhausted(task.id)
        store.finish_job(first, "done")
        (task,) = store.task_states(start_job(store))
        assert (task.untuned_seconds, task.exhausted) == (0.5, True)

    def test_a_raised_budget_tries_exhausted_tasks_again(self, store: Store) -> None:
        job = start_job(store, trials=100)
        store.set_exhausted(store.task_states(job)[0].id)
        assert start_job(store, trials=200) == job
        assert not store.task_states(job)[0].exhausted

    def test_a_task_tells_its_trials_failures_and_best_times(self, store: Store) -> None:
        results = {"a": success(3.0), "b": failure(ErrorClass.BUILD), "c": success(2.0)}
        ids = measure(store, conv(), results)
        store.mark_verified(ids["a"])
        (task,) = store.task_states(start_job(store))
        assert (task.trials, task.failures) == (3, {ErrorClass.BUILD: 1})
        assert (task.best_seconds, task.served_seconds) == (2.0, 3.0)

    def test_timings_of_emulated_boards_are_another_matter(self, store: Store) -> None:
        measure(store, conv(), {"a": success(1.0, emulated=True)}, emulated=True)
        (task,) = store.task_states(start_job(store))
        assert (task.trials, task.best_seconds, task.history) == (0, None, ())


class RoundsContract(StoreFixtures):
    def test_the_round_with_the_highest_gain_is_claimed_first(self, store: Store) -> None:
        job = start_job(store, conv(56), conv(28), conv(14))
        tasks = [task.id for task in store.task_states(job)]
        gains = zip(tasks, (1.0, 3.0, 2.0), strict=True)
        store.propose_rounds(job, [RoundProposal(task, 4, gain) for task, gain in gains])
        claimed = [store.claim_round("worker", job) for _ in tasks]
        order = [one.task_id for one in claimed if one is not None]
        assert order == [tasks[1], tasks[2], tasks[0]]

    def test_a_proposal_changes_the_round_that_is_free(self, store: Store) -> None:
        job = start_job(store, conv(56), conv(28))
        first, second = (task.id for task in store.task_states(job))
        store.propose_rounds(job, [RoundProposal(first, 4, 2.0), RoundProposal(second, 4, 1.0)])
        assert store.propose_rounds(job, [RoundProposal(second, 6, 9.0)]) == 2
        claimed = store.claim_round("worker", job)
        assert claimed is not None
        assert (claimed.task_id, claimed.size) == (second, 6)

    def test_one_workload_and_target_has_one_open_round(self, store: Store) -> None:
        mine, other = start_job(store, conv(56)), start_job(store, conv(56), conv(28))
        assert propose_all(store, mine, 4) == 1
        assert propose_all(store, mine, 4) == 1
        assert propose_all(store, other, 4) == 2
        assert store.propose_rounds(mine, []) == 0

    def test_there_is_nothing_to_claim_where_all_is_claimed(self, store: Store) -> None:
        job = start_job(store)
        claim_new_round(store, job)
        assert store.claim_round("second", job) is None

    @pytest.mark.parametrize(
        ("classes", "found"), [([BOARD], True), (["rpi5"], False), ([], False)]
    )
    def test_a_worker_claims_only_what_its_boards_can_run(
        self, store: Store, classes: list[str], found: bool
    ) -> None:
        propose_all(store, start_job(store), 4)
        assert (store.claim_round("worker", board_classes=classes) is not None) is found

    def test_only_rounds_of_the_tasks_asked_for_are_claimed(self, store: Store) -> None:
        job = start_job(store, conv(56), conv(28))
        propose_all(store, job, size=2)
        _, second = store.task_states(job)
        claimed = store.claim_round("worker", job, task_ids={second.id})
        assert claimed is not None
        assert claimed.task_id == second.id
        assert store.claim_round("worker", job, task_ids={second.id}) is None

    def test_a_round_is_granted_what_the_budget_has_left(self, store: Store) -> None:
        job = start_job(store, conv(56), conv(28), conv(14), trials=10)
        propose_all(store, job, 8)
        claimed = [store.claim_round("worker", job) for _ in range(3)]
        assert [one and one.size for one in claimed] == [8, 2, None]
        assert store.budget(job).granted == 10

    def test_a_round_that_is_granted_nothing_is_closed(self, store: Store) -> None:
        job = start_job(store, conv(56), conv(28), trials=0)
        propose_all(store, job, 8)
        assert store.claim_round("worker", job) is None
        assert store.propose_rounds(job, []) == 0

    def test_a_task_of_another_job_cannot_be_proposed(self, store: Store) -> None:
        first, second = start_job(store, conv(56)), start_job(store, conv(28))
        (task,) = store.task_states(first)
        with pytest.raises(DatabaseError, match="not one of job"):
            store.propose_rounds(second, [RoundProposal(task.id, 1, 1.0)])

    def test_a_finished_round_gives_back_what_it_did_not_measure(self, store: Store) -> None:
        job = start_job(store)
        claimed = claim_new_round(store, job, size=8)
        store.store_candidates(claimed.id, claimed.epoch, candidates("a", "b"))
        store.store_result(claimed.id, claimed.epoch, 0, success(1.0))
        assert store.budget(job).granted == 8
        store.finish_round(claimed.id, claimed.epoch)
        budget = store.budget(job)
        assert (budget.granted, budget.spent) == (1, 1)

    def test_the_best_after_each_finished_round_is_remembered(self, store: Store) -> None:
        job = start_job(store)
        for name, result in (("a", failure()), ("b", success(2.0)), ("c", success(3.0))):
            claimed = claim_new_round(store, job, size=1)
            store.store_candidates(claimed.id, claimed.epoch, candidates(name))
            store.store_result(claimed.id, claimed.epoch, 0, result)
            store.finish_round(claimed.id, claimed.epoch)
        assert store.task_states(job)[0].history == (math.inf, 2.0, 2.0)

    def test_finishing_a_job_takes_its_rounds_from_their_workers(self, store: Store) -> None:
        job = start_job(store)
        claimed = claim_new_round(store, job)
        store.finish_job(job, "stopped", "time is over")
        with pytest.raises(LeaseLostError):
            store.beat(claimed.id, claimed.epoch)
        assert store.budget(job).granted == 0


class SlotsContract(StoreFixtures):
    def test_candidates_are_numbered_on_from_those_before(self, store: Store) -> None:
        claimed = claim_new_round(store, start_job(store))
        store.store_candidates(claimed.id, claimed.epoch, candidates("a", "b"))
        slots = store.store_candidates(claimed.id, claimed.epoch, candidates("c"))
        assert [(slot.number, slot.candidate) for slot in slots] == [(2, Candidate(TRACE, "c"))]

    def test_nothing_is_measured_twice(self, store: Store) -> None:
        measure(store, conv(), {"known": success(1.0), "failed": failure()})
        claimed = claim_new_round(store, start_job(store))
        names = ("known", "a", "failed", "a", "b")
        slots = store.store_candidates(claimed.id, claimed.epoch, candidates(*names))
        assert [slot.candidate.module_hash for slot in slots] == ["a", "b"]
        assert store.store_candidates(claimed.id, claimed.epoch, candidates("b", "a")) == ()

    def test_what_an_emulated_board_measured_is_measured_on_a_real_one(self, store: Store) -> None:
        measure(store, conv(), {"a": success(1.0, emulated=True)}, emulated=True)
        measure(store, conv(), {"a": success(2.0)})
        records = store.records(conv().key.on(A76))
        assert [record.measurement.emulated for record in records] == [True, False]

    def test_a_round_takes_no_more_candidates_than_it_was_granted(self, store: Store) -> None:
        claimed = claim_new_round(store, start_job(store), size=2)
        slots = store.store_candidates(claimed.id, claimed.epoch, candidates("a", "b", "c"))
        assert len(slots) == 2

    def test_a_result_is_charged_once_and_a_second_is_kept_as_a_repeat(self, store: Store) -> None:
        job = start_job(store)
        claimed = claim_new_round(store, job)
        store.store_candidates(claimed.id, claimed.epoch, candidates("a"))
        result = success(1.0, board_seconds=0.5)
        first = store.store_result(claimed.id, claimed.epoch, 0, result)
        second = store.store_result(claimed.id, claimed.epoch, 0, result)
        assert (first.repeated, second.repeated) == (False, True)
        assert first.record_id == second.record_id
        budget = store.budget(job)
        assert (budget.spent, budget.board_seconds) == (1, 1.0)
        assert len(store.records(claimed.key)) == 1

    def test_a_result_without_a_slot_is_an_error(self, store: Store) -> None:
        claimed = claim_new_round(store, start_job(store))
        with pytest.raises(DatabaseError, match="no slot 3"):
            store.store_result(claimed.id, claimed.epoch, 3, success(1.0))


class RoundContract(JobContract, RoundsContract, SlotsContract):
    """All of the above."""
