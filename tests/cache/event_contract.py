"""What submitted jobs tell, whichever database is behind the store."""

from __future__ import annotations

import pytest
from cache_samples import candidates, conv, propose_all, start_job, success
from processes import run_at_once
from queue_samples import (
    append_events,
    claim_new_searched,
    submit,
    submit_searched,
)
from store_contract import StoreFixtures

from tunebook.cache.errors import LeaseLostError
from tunebook.cache.queue.submissions import BudgetLimits
from tunebook.cache.store import Store


class EventContract(StoreFixtures):
    def test_a_job_tells_its_states_in_order(self, store: Store) -> None:
        job = submit_searched(store, budget=BudgetLimits(trials=1))
        claimed = claim_new_searched(store, job, size=1)
        store.store_candidates(claimed.id, claimed.epoch, candidates("a"))
        store.store_result(claimed.id, claimed.epoch, 0, success(1e-3))
        store.finish_round(claimed.id, claimed.epoch)
        store.queue.end_spent()
        events = store.queue.events(job)
        assert [event.number for event in events] == [1, 2, 3, 4, 5]
        told = [event.data.get("state", event.kind) for event in events]
        assert told == ["queued", "recovering", "running", "round", "done"]
        assert events[-1].data["reason"] == "trials"
        assert store.queue.job(job).last_event == 5

    def test_a_finished_round_is_told_with_what_the_model_takes_then(self, store: Store) -> None:
        job = submit_searched(store, conv(56), conv(28), conv(56))
        first, second = store.task_states(job)
        store.set_untuned_seconds(first.id, 5.0)
        store.set_untuned_seconds(second.id, 7.0)
        claimed = claim_new_searched(store, job)
        store.store_candidates(claimed.id, claimed.epoch, candidates("a", "b"))
        store.store_result(claimed.id, claimed.epoch, 0, success(2.0))
        store.store_result(claimed.id, claimed.epoch, 1, success(3.0))
        store.finish_round(claimed.id, claimed.epoch, seconds=1.5)
        event = store.queue.events(job)[-1]
        assert event.kind == "round"
        assert event.data == {
            "key": str(first.key),
            "op": first.key.op,
            "trials": 2,
            "seconds": 1.5,
            "best_seconds": 2.0,
            "latency_seconds": 2 * 2.0 + 7.0,
        }

    def test_a_round_of_a_model_with_unknown_times_expects_nothing(self, store: Store) -> None:
        job = submit_searched(store, conv(56), conv(28))
        claimed = claim_new_searched(store, job)
        store.finish_round(claimed.id, claimed.epoch)
        assert store.queue.events(job)[-1].data["latency_seconds"] is None

    def test_events_are_read_on_from_a_number(self, store: Store, url: str) -> None:
        job = submit(store)
        append_events(url, job, 5)
        assert [event.number for event in store.queue.events(job, after=3)] == [4, 5, 6]
        assert [event.number for event in store.queue.events(job, after=1, limit=2)] == [2, 3]
        assert store.queue.events(job, after=6) == ()

    def test_events_of_many_processes_are_numbered_without_gaps(
        self, store: Store, url: str
    ) -> None:
        job = submit(store)
        numbers = [one for told in run_at_once(2, "tell", url, job, 20) for one in told]
        assert sorted(numbers) == list(range(2, 42))
        events = store.queue.events(job)
        assert [event.number for event in events] == list(range(1, 42))
        assert store.queue.job(job).last_event == 41

    def test_what_did_not_happen_is_not_told(self, store: Store) -> None:
        job = submit_searched(store)
        claimed = claim_new_searched(store, job)
        before = store.queue.events(job)
        with pytest.raises(LeaseLostError):
            store.finish_round(claimed.id, claimed.epoch - 1)
        assert store.queue.events(job) == before

    def test_local_commands_tell_nothing(self, store: Store) -> None:
        job = start_job(store)
        propose_all(store, job, 4)
        claimed = store.claim_round("worker", job)
        assert claimed is not None
        store.finish_round(claimed.id, claimed.epoch)
        store.finish_job(job, "done")
        assert store.queue.events(job) == ()
