"""Stages of submitted jobs, whichever database is behind the store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from cache_samples import BOARD, conv, model_of, propose_all, start_job
from lease_contract import LEASE, Clock
from processes import start
from queue_samples import (
    TRIALS,
    claim_recovery,
    claim_searched,
    claim_split,
    recover,
    request_for,
    split,
    submit,
    submit_searched,
)
from store_contract import StoreFixtures

from tunebook.cache.errors import DatabaseError, LeaseLostError
from tunebook.cache.queue.submissions import ClaimedStage, JobState
from tunebook.cache.store import Store


class StageContract(StoreFixtures):
    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def observer(self, url: str, clock: Clock) -> Iterator[Store]:
        """A second worker's store, whose clock the test moves."""
        with Store.open(url, lease_seconds=LEASE, monotonic=clock) as store:
            yield store

    def test_a_job_is_split_by_anybody_once(self, store: Store) -> None:
        job = submit(store)
        claimed = claim_split(store)
        assert claimed is not None
        assert (claimed.job_id, claimed.stage, claimed.model_id) == (job, "split", None)
        assert claimed.request == request_for()
        assert claim_split(store) is None

    @pytest.mark.parametrize(
        ("classes", "found"), [([BOARD], True), (["rpi5"], False), ([], False)]
    )
    def test_a_job_is_recovered_by_who_has_its_boards(
        self, store: Store, classes: list[str], found: bool
    ) -> None:
        submit(store)
        split(store)
        claimed = store.queue.claim_stage("worker", ["split", "recover"], classes)
        assert (claimed is not None) is found

    def test_a_worker_claims_the_stages_it_asks_for(self, store: Store) -> None:
        submit(store)
        assert store.queue.claim_stage("worker", ["recover"], [BOARD]) is None
        assert store.queue.claim_stage("worker", ["search"], [BOARD]) is None

    def test_the_highest_priority_comes_first_and_of_the_same_the_oldest(
        self, store: Store
    ) -> None:
        made = [submit(store, conv(size)) for size in (56, 28)]
        request = replace(request_for(conv(14)), priority=2.0)
        urgent = store.queue.submit(request, TRIALS).job_id
        order = [claimed.job_id for _ in range(3) if (claimed := claim_split(store))]
        assert order == [urgent, *made]

    def test_the_tasks_of_a_job_are_known_once_it_is_split(self, store: Store) -> None:
        job = submit(store, conv(56), conv(28))
        assert store.task_states(job) == []
        split(store, conv(56), conv(28))
        assert len(store.task_states(job)) == 2
        assert store.queue.job(job).model_id is not None

    def test_a_model_that_is_not_stored_is_no_split(self, store: Store) -> None:
        job = submit(store)
        claimed = claim_split(store)
        assert claimed is not None
        with pytest.raises(DatabaseError, match="no model"):
            store.queue.finish_split(job, claimed.epoch, 12345)
        store.queue.beat_stage(job, claimed.epoch)

    def test_a_job_is_searched_for_once_it_was_recovered(self, store: Store) -> None:
        job = submit(store)
        split(store)
        assert store.queue.searching([BOARD]) == ()
        recover(store)
        (searching,) = store.queue.searching([BOARD])
        assert (searching.job_id, searching.priority, searching.board_class) == (job, 1.0, BOARD)
        assert searching.budget == store.queue.job(job).budget
        assert store.queue.searching(["rpi5"]) == ()

    def test_rounds_of_a_recovery_are_claimed_for_their_job_only(self, store: Store) -> None:
        job = submit(store)
        split(store)
        assert claim_recovery(store) is not None
        propose_all(store, job, 4)
        assert claim_searched(store) is None
        assert store.claim_round("recoverer", job) is not None

    def test_what_a_recovery_proposed_and_nobody_claimed_is_closed_with_it(
        self, store: Store
    ) -> None:
        job = submit(store)
        split(store)
        claimed = claim_recovery(store)
        assert claimed is not None
        propose_all(store, job, 4)
        store.queue.finish_recovery(job, claimed.epoch)
        assert claim_searched(store) is None

    def test_rounds_of_local_commands_are_not_searched_by_others(self, store: Store) -> None:
        propose_all(store, start_job(store), 4)
        assert claim_searched(store) is None

    def test_a_failed_stage_ends_the_job_with_its_reason_and_the_end_of_its_log(
        self, store: Store
    ) -> None:
        job = submit(store)
        claimed = claim_split(store)
        assert claimed is not None
        store.queue.fail_stage(job, claimed.epoch, "it is no model", "x" * 100_000 + "the end")
        failed = store.queue.job(job)
        assert (failed.state, failed.reason) == (JobState.FAILED, "it is no model")
        assert failed.log.endswith("the end")
        assert len(failed.log) < 100_000
        assert claim_split(store) is None

    def test_a_stage_dies_when_its_beat_stands_still(
        self, store: Store, observer: Store, clock: Clock
    ) -> None:
        first, second = self._stage_taken_over(store, observer, clock)
        assert second.job_id == first.job_id
        assert second.epoch > first.epoch

    def test_a_worker_that_beats_keeps_its_stage(
        self, store: Store, observer: Store, clock: Clock
    ) -> None:
        submit(store)
        claimed = claim_split(store)
        assert claimed is not None
        for _ in range(5):
            assert claim_split(observer) is None
            clock.now += LEASE - 1
            store.queue.beat_stage(claimed.job_id, claimed.epoch)

    def test_a_stage_stays_dead_while_rounds_are_watched_too(
        self, store: Store, observer: Store, clock: Clock
    ) -> None:
        """Each kind of lease is watched for itself: none makes the other look new."""
        propose_all(store, start_job(store, conv(28)), 4)
        assert store.claim_round("worker") is not None
        submit(store)
        assert claim_split(store) is not None
        for _ in range(3):
            assert claim_split(observer) is None
            assert observer.claim_round("second") is None
            observer.queue.jobs()
            clock.now += LEASE / 2
        assert claim_split(observer) is not None
        assert observer.claim_round("second") is not None

    def test_after_kill_9_the_stage_is_claimed_at_once(self, store: Store, url: str) -> None:
        job = submit(store)
        victim = start("hold_split", url)
        assert victim.stdout is not None
        assert json.loads(victim.stdout.readline()) == job
        assert claim_split(store) is None
        victim.kill()
        victim.wait()
        victim.stdout.close()
        claimed = claim_split(store)
        assert claimed is not None
        assert claimed.job_id == job

    def test_a_model_that_ends_every_worker_that_splits_it_is_given_up(
        self, store: Store, observer: Store, clock: Clock
    ) -> None:
        job, other = submit(store, conv(56)), submit(store, conv(28))
        self._lose_workers(observer, clock, "split", 3)
        claimed = claim_split(observer)
        assert claimed is not None
        assert claimed.job_id == other
        failed = store.queue.job(job)
        assert (failed.state, failed.log) == (JobState.FAILED, "")
        assert "3 workers ended" in failed.reason
        assert store.queue.events(job)[-1].data["state"] == "failed"

    def test_a_job_whose_recovery_ends_every_worker_is_searched_for(
        self, store: Store, observer: Store, clock: Clock
    ) -> None:
        job = submit(store)
        self._lose_workers(observer, clock, "split", 2)
        split(store)
        self._lose_workers(observer, clock, "recover", 3)
        assert claim_recovery(observer) is None
        assert [one.job_id for one in store.queue.searching([BOARD])] == [job]
        assert store.queue.events(job)[-1].data["stage"] == "search"

    def test_a_stage_that_was_let_go_is_never_given_up(self, store: Store) -> None:
        submit(store)
        for _ in range(5):
            claimed = claim_split(store)
            assert claimed is not None
            store.queue.release_stage(claimed.job_id, claimed.epoch)

    def _lose_workers(self, observer: Store, clock: Clock, stage: str, count: int) -> None:
        """Workers claim the stage that is first in the queue, and die one after the other."""
        for _ in range(count):
            assert observer.queue.claim_stage("victim", [stage], [BOARD]) is not None
            observer.queue.end_spent()
            clock.now += LEASE + 1
            observer.queue.end_spent()

    @pytest.mark.parametrize("lost", ["taken over", "cancelled"])
    @pytest.mark.parametrize("write", ["beat", "split", "fail", "release"])
    def test_a_worker_that_lost_its_stage_is_told_so(
        self, store: Store, observer: Store, clock: Clock, write: str, lost: str
    ) -> None:
        if lost == "taken over":
            claimed, _ = self._stage_taken_over(store, observer, clock)
        else:
            submit(store)
            only = claim_split(store)
            assert only is not None
            claimed = only
            store.queue.cancel(claimed.job_id)
        model = store.save_model(model_of([conv()]))
        before = store.queue.job(claimed.job_id)
        writes = {
            "beat": lambda: store.queue.beat_stage(claimed.job_id, claimed.epoch),
            "split": lambda: store.queue.finish_split(claimed.job_id, claimed.epoch, model),
            "fail": lambda: store.queue.fail_stage(claimed.job_id, claimed.epoch, "no", "log"),
            "release": lambda: store.queue.release_stage(claimed.job_id, claimed.epoch),
        }
        with pytest.raises(LeaseLostError, match="claim anew"):
            writes[write]()
        assert store.queue.job(claimed.job_id) == before

    def test_a_stage_that_is_let_go_is_claimed_by_another(self, store: Store) -> None:
        submit(store)
        claimed = claim_split(store)
        assert claimed is not None
        store.queue.release_stage(claimed.job_id, claimed.epoch)
        again = claim_split(store)
        assert again is not None
        assert again.job_id == claimed.job_id

    def test_a_stage_is_finished_once(self, store: Store) -> None:
        submit(store)
        claimed = claim_split(store)
        assert claimed is not None
        model = store.save_model(model_of([conv()]))
        store.queue.finish_split(claimed.job_id, claimed.epoch, model)
        for finish in (
            lambda: store.queue.finish_split(claimed.job_id, claimed.epoch, model),
            lambda: store.queue.finish_recovery(claimed.job_id, claimed.epoch),
        ):
            with pytest.raises(LeaseLostError):
                finish()
        assert len(store.task_states(claimed.job_id)) == 1

    def test_what_the_unscheduled_program_takes_is_noted_for_all_open_jobs(
        self, store: Store
    ) -> None:
        jobs = [submit_searched(store, conv(56), conv(28)), submit_searched(store, conv(56))]
        (first, _), (second,) = (store.task_states(job) for job in jobs)
        store.set_untuned_seconds(first.id, 0.5)
        assert store.task_states(jobs[1])[0].untuned_seconds == 0.5
        assert [task.untuned_seconds for task in store.task_states(jobs[0])] == [0.5, None]
        store.set_untuned_seconds(second.id, 0.25)
        assert store.task_states(jobs[0])[0].untuned_seconds == 0.5

    def _stage_taken_over(
        self, store: Store, observer: Store, clock: Clock
    ) -> tuple[ClaimedStage, ClaimedStage]:
        submit(store)
        first = claim_split(store)
        assert first is not None
        assert claim_split(observer) is None
        clock.now += LEASE + 1
        second = claim_split(observer)
        assert second is not None
        return first, second
