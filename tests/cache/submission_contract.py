"""Submitting, listing and cancelling jobs, whichever database is behind the store."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest
from cache_samples import A53, BOARD, conv, start_job
from processes import run_at_once
from queue_samples import (
    SERVED,
    TRIALS,
    claim_new_searched,
    claim_searched,
    claim_split,
    request_for,
    split,
    submit,
    submit_searched,
)
from store_contract import StoreFixtures

from tunebook.cache.errors import (
    BudgetError,
    IdempotencyError,
    LeaseLostError,
    NotFoundError,
    UsageError,
)
from tunebook.cache.queue.submissions import BudgetLimits, Idempotency, JobFilter, JobState
from tunebook.cache.store import Store

KEY = Idempotency("client", "key-1", "hash of the body")
LATER = datetime(2999, 1, 1, tzinfo=timezone.utc)


class SubmissionContract(StoreFixtures):
    def test_a_job_stands_as_it_was_submitted(self, store: Store) -> None:
        request = replace(request_for(), name="mobilenet", priority=2.5, choices="layout=NHWC")
        job = store.queue.job(store.queue.submit(request, TRIALS).job_id)
        assert job.request == request
        assert (job.budget.limits, job.budget.trials_spent) == (TRIALS, 0)
        assert (job.model_id, job.finished_at, job.log) == (None, None, "")
        assert job.created_at.tzinfo is not None

    @pytest.mark.parametrize(
        ("board_class", "emulated"), [("rpi4", False), ("emulated-aarch64", True)]
    )
    def test_the_board_class_says_whether_its_boards_are_emulated(
        self, store: Store, board_class: str, emulated: bool
    ) -> None:
        request = request_for(board_class=board_class)
        job = store.queue.job(store.queue.submit(request, TRIALS).job_id)
        assert job.request.emulated is emulated

    def test_a_client_that_retries_makes_one_job(self, store: Store) -> None:
        first = store.queue.submit(request_for(), TRIALS, KEY)
        again = store.queue.submit(request_for(), TRIALS, KEY)
        assert (first.created, again.created) == (True, False)
        assert again.job_id == first.job_id
        assert len(store.queue.jobs()) == 1

    def test_a_retry_after_the_job_has_ended_makes_none_either(self, store: Store) -> None:
        first = store.queue.submit(request_for(), TRIALS, KEY)
        store.queue.cancel(first.job_id)
        assert store.queue.submit(request_for(), TRIALS, KEY).job_id == first.job_id

    def test_a_key_with_another_body_is_refused(self, store: Store) -> None:
        store.queue.submit(request_for(), TRIALS, KEY)
        with pytest.raises(IdempotencyError, match=r"key-1.*job/") as refused:
            store.queue.submit(request_for(), TRIALS, replace(KEY, body_hash="another"))
        assert refused.value.problem_type == "idempotency-key-reused"
        assert len(store.queue.jobs()) == 1

    def test_a_key_of_another_kind_of_request_is_refused(self, store: Store) -> None:
        store.queue.create_budget("night", TRIALS, KEY)
        with pytest.raises(IdempotencyError, match="budget/"):
            store.queue.submit(request_for(), TRIALS, KEY)

    def test_each_client_has_keys_of_its_own(self, store: Store) -> None:
        first = store.queue.submit(request_for(), TRIALS, KEY)
        other = store.queue.submit(request_for(), TRIALS, replace(KEY, owner="another client"))
        assert other.created
        assert other.job_id != first.job_id

    def test_a_refused_submission_does_not_use_its_key_up(self, store: Store) -> None:
        with pytest.raises(BudgetError):
            store.queue.submit(request_for(), BudgetLimits(trials=0), KEY)
        assert store.queue.submit(request_for(), TRIALS, KEY).created

    @pytest.mark.parametrize(
        ("limits", "why"),
        [
            (BudgetLimits(), "limits nothing"),
            (BudgetLimits(trials=0), "0 trials"),
            (BudgetLimits(trials=-1), "-1 trials"),
            (BudgetLimits(trials=10**9), "1000000000 trials"),
            (BudgetLimits(seconds=0.0), "seconds"),
            (BudgetLimits(seconds=float("nan")), "seconds"),
            (BudgetLimits(trials=1, board_seconds=float("inf")), "board_seconds"),
            (BudgetLimits(deadline=datetime(2999, 1, 1)), "no time zone"),
            (BudgetLimits(deadline=datetime(2020, 1, 1, tzinfo=timezone.utc)), "is past"),
        ],
    )
    def test_a_budget_that_cannot_serve_is_refused(
        self, store: Store, limits: BudgetLimits, why: str
    ) -> None:
        with pytest.raises(BudgetError, match=why):
            store.queue.submit(request_for(), limits)
        with pytest.raises(BudgetError, match=why):
            store.queue.create_budget("night", limits)
        assert store.queue.jobs() == ()

    @pytest.mark.parametrize("priority", [0.0, -1.0, float("nan"), float("inf")])
    def test_a_priority_that_ranks_nothing_is_refused(self, store: Store, priority: float) -> None:
        with pytest.raises(UsageError, match="priority"):
            store.queue.submit(replace(request_for(), priority=priority), TRIALS)

    def test_a_budget_that_is_not_there_or_not_shared_is_not_found(self, store: Store) -> None:
        own = store.queue.job(submit(store)).budget.id
        for budget in (own, own + 1):
            with pytest.raises(NotFoundError, match="shared budget"):
                store.queue.submit(request_for(), budget)
        with pytest.raises(NotFoundError, match="no budget"):
            store.queue.budget(own + 1)

    def test_a_shared_budget_needs_a_name(self, store: Store) -> None:
        with pytest.raises(BudgetError, match="name"):
            store.queue.create_budget(" ", TRIALS)

    def test_a_budget_is_made_once_by_a_client_that_retries(self, store: Store) -> None:
        first, created = store.queue.create_budget("night", TRIALS, KEY)
        assert created
        assert store.queue.create_budget("night", TRIALS, KEY) == (first, False)

    def test_shared_budgets_are_listed_newest_first_by_name(self, store: Store) -> None:
        made = [store.queue.create_budget(name, TRIALS)[0] for name in ("a", "b", "a")]
        submit(store)
        assert [one.id for one in store.queue.budgets()] == made[::-1]
        assert [one.id for one in store.queue.budgets("a")] == [made[2], made[0]]
        assert [one.id for one in store.queue.budgets(after=made[2], limit=1)] == [made[1]]

    @pytest.mark.parametrize(
        ("limits", "left"),
        [
            (BudgetLimits(trials=8), (8, None, None)),
            (BudgetLimits(seconds=60.0), (None, 60.0, None)),
            (BudgetLimits(board_seconds=5.5, deadline=LATER), (None, None, 5.5)),
        ],
    )
    def test_a_budget_says_what_is_left_of_what_it_limits(
        self, store: Store, limits: BudgetLimits, left: tuple[object, ...]
    ) -> None:
        budget = store.queue.job(submit(store, budget=limits)).budget
        assert budget.limits == limits
        assert (budget.trials_left, budget.seconds_left, budget.board_seconds_left) == left
        assert budget.over is None


class ListingContract(StoreFixtures):
    def test_jobs_are_listed_newest_first_a_page_at_a_time(self, store: Store) -> None:
        made = [submit(store, conv(size)) for size in (56, 28, 14)]
        first = store.queue.jobs(limit=2)
        assert [job.id for job in first] == [made[2], made[1]]
        assert [job.id for job in store.queue.jobs(after=first[-1].id, limit=2)] == [made[0]]
        assert store.queue.jobs()[0] == store.queue.job(made[2])

    def test_jobs_are_filtered_by_all_that_is_given(self, store: Store) -> None:
        shared, _ = store.queue.create_budget("night", TRIALS)
        named = store.queue.submit(replace(request_for(conv(28)), name="it"), shared).job_id
        on_a53 = submit(store, conv(56), target=A53)
        assert [job.id for job in store.queue.jobs(JobFilter(target=A53))] == [on_a53]
        assert [job.id for job in store.queue.jobs(JobFilter(budget_id=shared))] == [named]
        digest = request_for(conv(28)).digest
        both = JobFilter(digest=digest, name="it", board_class=BOARD)
        assert [job.id for job in store.queue.jobs(both)] == [named]
        assert store.queue.jobs(JobFilter(digest=digest, target=A53)) == ()

    def test_the_filter_of_a_state_agrees_with_the_states_that_are_told(self, store: Store) -> None:
        self._job_in_each_state(store)
        told = {job.id: job.state for job in store.queue.jobs()}
        assert set(told.values()) == set(JobState)
        for state in JobState:
            listed = [job.id for job in store.queue.jobs(JobFilter(states=(state,)))]
            assert listed == [job for job, at in told.items() if at is state]

    def _job_in_each_state(self, store: Store) -> None:
        store.fleet.announce("worker", [SERVED])
        exhausted = submit_searched(store, conv(7))
        store.set_exhausted(store.task_states(exhausted)[0].id)
        store.queue.end_spent()
        submit_searched(store, conv(3))
        submit(store, conv(14))
        failing = claim_split(store)
        assert failing is not None
        store.queue.fail_stage(failing.job_id, failing.epoch, "it is no model")
        submit(store, conv(28))
        split(store, conv(28))
        store.queue.cancel(submit(store, conv(56)))
        submit(store, conv(112))
        store.queue.submit(request_for(board_class="rpi5"), TRIALS)

    def test_a_list_has_no_logs(self, store: Store) -> None:
        submit(store)
        claimed = claim_split(store)
        assert claimed is not None
        store.queue.fail_stage(claimed.job_id, claimed.epoch, "no", "a long story")
        assert store.queue.job(claimed.job_id).log == "a long story"
        assert store.queue.jobs()[0].log == ""

    def test_jobs_of_local_commands_are_not_seen(self, store: Store) -> None:
        local = start_job(store)
        assert store.queue.jobs() == ()
        for ask in (store.queue.job, store.queue.cancel):
            with pytest.raises(NotFoundError, match=f"no job {local}"):
                ask(local)
        assert store.job_is_open(local)

    def test_a_cancelled_job_stays_so_and_keeps_what_was_measured(self, store: Store) -> None:
        job = submit_searched(store)
        claimed = claim_new_searched(store, job)
        cancelled = store.queue.cancel(job)
        assert cancelled.state is JobState.CANCELLED
        assert cancelled.finished_at is not None
        assert cancelled.budget.trials_granted == 0
        assert store.queue.cancel(job) == cancelled
        with pytest.raises(LeaseLostError):
            store.finish_round(claimed.id, claimed.epoch)
        assert claim_searched(store) is None

    def test_a_job_that_has_ended_is_not_cancelled(self, store: Store) -> None:
        job = submit(store)
        store.queue.fail(job, "nobody can build for it", "log")
        after = store.queue.cancel(job)
        assert (after.state, after.reason) == (JobState.FAILED, "nobody can build for it")


class SubmittingProcessesContract(StoreFixtures):
    def test_processes_that_retry_at_once_make_one_job(self, store: Store, url: str) -> None:
        made = run_at_once(2, "submit", url, 5, "the same key")
        assert len(set(map(tuple, made))) == 1
        assert len(store.queue.jobs()) == 1

    def test_processes_that_want_the_same_at_once_share_one_budget(
        self, store: Store, url: str
    ) -> None:
        run_at_once(2, "submit", url, 5)
        jobs = store.queue.jobs()
        assert len(jobs) == 10
        assert len({job.budget.id for job in jobs}) == 1


class QueueContract(SubmissionContract, ListingContract, SubmittingProcessesContract):
    """All of the above."""
