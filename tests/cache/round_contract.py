"""Jobs, budgets, rounds and leases, whichever database is behind the store."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

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
    run_sql,
    start_job,
    success,
)
from processes import run_at_once, start
from store_contract import StoreFixtures

from tunebook.cache.errors import BudgetError, DatabaseError, LeaseLostError
from tunebook.cache.records import Candidate, ErrorClass
from tunebook.cache.store import RoundProposal, Store

LEASE = 10.0


class Clock:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


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
        job = store.submit_job(model, BOARD, trials=None, more=7)
        assert store.budget(job).limit == 9

    def test_a_total_below_what_was_spent_leaves_nothing_to_grant(self, store: Store) -> None:
        measure(store, conv(), {"a": success(1.0), "b": failure()})
        job = start_job(store, trials=1)
        assert store.budget(job).limit == 2
        propose_all(store, job, 8)
        assert store.claim_round("worker", job) is None

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
        assert propose_all(store, other, 4) == 1

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


class LeaseContract(StoreFixtures):
    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def observer(self, url: str, clock: Clock) -> Iterator[Store]:
        """A second worker's store, whose clock the test moves."""
        with Store.open(url, lease_seconds=LEASE, monotonic=clock) as store:
            yield store

    def test_a_lease_dies_when_its_beat_stands_still(
        self, store: Store, observer: Store, clock: Clock
    ) -> None:
        job = start_job(store)
        first = claim_new_round(store, job)
        assert observer.claim_round("second", job) is None
        clock.now += LEASE + 1
        second = observer.claim_round("second", job)
        assert second is not None
        assert (second.id, second.epoch > first.epoch) == (first.id, True)

    def test_a_lease_that_is_seen_for_the_first_time_lives(
        self, store: Store, observer: Store, clock: Clock
    ) -> None:
        job = start_job(store)
        claim_new_round(store, job)
        clock.now += 1000 * LEASE
        assert observer.claim_round("second", job) is None

    def test_a_worker_that_beats_keeps_its_round(
        self, store: Store, observer: Store, clock: Clock
    ) -> None:
        job = start_job(store)
        claimed = claim_new_round(store, job)
        for _ in range(5):
            assert observer.claim_round("second", job) is None
            clock.now += LEASE - 1
            store.beat(claimed.id, claimed.epoch)

    def test_storing_results_is_a_sign_of_life_too(
        self, store: Store, observer: Store, clock: Clock
    ) -> None:
        job = start_job(store)
        claimed = claim_new_round(store, job)
        store.store_candidates(claimed.id, claimed.epoch, candidates("a", "b"))
        for number in range(2):
            assert observer.claim_round("second", job) is None
            clock.now += LEASE - 1
            store.store_result(claimed.id, claimed.epoch, number, success(1.0))
        assert observer.claim_round("second", job) is None

    @pytest.mark.parametrize("write", ["beat", "store_candidates", "finish_round"])
    def test_a_worker_that_lost_its_lease_is_told_so(
        self, store: Store, observer: Store, clock: Clock, write: str
    ) -> None:
        first, _ = self._taken_over(store, observer, clock)
        with pytest.raises(LeaseLostError, match="taken over"):
            if write == "store_candidates":
                store.store_candidates(first.id, first.epoch, candidates("z"))
            else:
                getattr(store, write)(first.id, first.epoch)

    def test_a_successor_has_the_slots_and_the_grant_of_its_predecessor(
        self, store: Store, observer: Store, clock: Clock
    ) -> None:
        first, second = self._taken_over(store, observer, clock)
        assert second.size == first.size
        assert [slot.candidate.module_hash for slot in second.slots] == ["a", "b"]
        assert [slot.record_id is None for slot in second.slots] == [False, True]
        assert store.budget(second.job_id).granted == second.size

    def test_a_late_result_for_an_empty_slot_is_stored_once_and_charged_once(
        self, store: Store, observer: Store, clock: Clock
    ) -> None:
        first, second = self._taken_over(store, observer, clock)
        late = store.store_result(first.id, first.epoch, 1, success(2.0, board_seconds=0.5))
        again = observer.store_result(second.id, second.epoch, 1, success(2.0, board_seconds=0.5))
        assert (late.repeated, again.repeated) == (False, True)
        budget = store.budget(second.job_id)
        assert (budget.spent, budget.board_seconds) == (2, 1.0)

    def test_a_late_result_for_a_filled_slot_is_a_repeat(
        self, store: Store, observer: Store, clock: Clock
    ) -> None:
        first, second = self._taken_over(store, observer, clock)
        observer.store_result(second.id, second.epoch, 1, success(2.0))
        late = store.store_result(first.id, first.epoch, 1, success(9.0, board_seconds=0.5))
        assert late.repeated
        assert [record.measurement.seconds for record in store.records(first.key)] == [1.0, 2.0]
        budget = store.budget(second.job_id)
        assert (budget.spent, budget.board_seconds) == (2, 0.5)

    def test_a_late_result_after_the_round_never_breaks_the_budget(
        self, store: Store, observer: Store, clock: Clock
    ) -> None:
        first, second = self._taken_over(store, observer, clock, trials=2)
        observer.finish_round(second.id, second.epoch)
        assert store.budget(second.job_id).granted == 1
        start_job(store, conv(), trials=1)
        late = store.store_result(first.id, first.epoch, 1, success(2.0))
        assert not late.repeated
        budget = store.budget(second.job_id)
        assert (budget.limit, budget.granted, budget.spent) == (1, 1, 1)

    @pytest.mark.parametrize("hours", [-1, 1])
    def test_a_wall_clock_stepped_by_an_hour_changes_nothing(
        self, store: Store, observer: Store, clock: Clock, url: str, hours: int
    ) -> None:
        job = start_job(store)
        claimed = claim_new_round(store, job)
        assert observer.claim_round("second", job) is None
        step = f"{hours:+d} hours"
        moved = (
            f"created_at + INTERVAL '{step}'"
            if url.startswith("postgresql")
            else f"strftime('%Y-%m-%d %H:%M:%f', created_at, '{step}')"
        )
        for table in ("rounds", "jobs", "models"):
            run_sql(url, f"UPDATE {table} SET created_at = {moved}")
        assert observer.claim_round("second", job) is None
        store.beat(claimed.id, claimed.epoch)
        assert start_job(store) == job
        clock.now += LEASE + 1
        assert observer.claim_round("second", job) is None
        clock.now += LEASE + 1
        assert observer.claim_round("second", job) is not None

    def _taken_over(self, store: Store, observer: Store, clock: Clock, trials: int = 100):  # type: ignore[no-untyped-def]
        """A round with one result in two slots, as its first and its second worker see it."""
        job = start_job(store, conv(), trials=trials)
        first = claim_new_round(store, job)
        store.store_candidates(first.id, first.epoch, candidates("a", "b"))
        store.store_result(first.id, first.epoch, 0, success(1.0))
        assert observer.claim_round("second", job) is None
        clock.now += LEASE + 1
        second = observer.claim_round("second", job)
        assert second is not None
        return first, second


class ProcessContract(StoreFixtures):
    def test_eight_processes_are_granted_exactly_the_budget(self, store: Store, url: str) -> None:
        job = start_job(store, *(conv(size) for size in range(1, 49)), trials=1000)
        assert propose_all(store, job, 25) == 48
        granted: dict[str, int] = {}
        for claimed in run_at_once(8, "reserve", url, job):
            # A process that is done is gone, and another may take its rounds over with their grant.
            granted |= claimed
        assert sum(granted.values()) == 1000
        budget = store.budget(job)
        assert (budget.limit, budget.granted) == (1000, 1000)

    def test_no_update_of_eight_processes_is_lost(self, store: Store, url: str) -> None:
        job = start_job(store)
        claimed = claim_new_round(store, job)
        store.store_candidates(claimed.id, claimed.epoch, candidates("a"))
        counted = run_at_once(8, "repeat", url, claimed.id, claimed.epoch, 20)
        assert sum(counted) == 160
        budget = store.budget(job)
        assert (budget.spent, budget.board_seconds) == (1, 40.0)

    def test_after_kill_9_the_round_goes_on_at_once_with_its_slots(
        self, store: Store, url: str
    ) -> None:
        job = start_job(store, trials=10)
        propose_all(store, job, 8)
        victim = start("hold", url, job)
        assert victim.stdout is not None
        round_id = json.loads(victim.stdout.readline())
        assert store.claim_round("successor", job) is None
        victim.kill()
        victim.wait()
        victim.stdout.close()
        claimed = store.claim_round("successor", start_job(store, trials=10))
        assert claimed is not None
        assert (claimed.id, claimed.size) == (round_id, 8)
        assert [slot.record_id is None for slot in claimed.slots] == [False, True, True]
        budget = store.budget(job)
        assert (budget.granted, budget.spent) == (8, 1)


class RoundContract(JobContract, RoundsContract, SlotsContract, LeaseContract, ProcessContract):
    """All of the above."""
