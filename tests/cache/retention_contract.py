"""What is kept for a while only, and then forgotten, whichever database is behind the store."""

from __future__ import annotations

from datetime import timedelta

import pytest
from queue_samples import TRIALS, request_for, submit
from store_contract import StoreFixtures

from tunebook.cache.queue.submissions import Idempotency, JobState
from tunebook.cache.storage.moments import now
from tunebook.cache.store import Store

KEY = Idempotency("client", "key-1", "hash of the body")


class RetentionContract(StoreFixtures):
    @pytest.mark.parametrize(("days", "made_anew"), [(6, False), (8, True)])
    def test_a_clients_key_counts_for_a_week(
        self, store: Store, days: int, made_anew: bool
    ) -> None:
        store.queue.submit(request_for(), TRIALS, KEY)
        store.queue.tidy(now() + timedelta(days=days))
        assert store.queue.submit(request_for(), TRIALS, KEY).created is made_anew

    @pytest.mark.parametrize(("days", "told"), [(29, 2), (31, 0)])
    def test_a_job_that_ended_tells_for_a_month_what_happened(
        self, store: Store, days: int, told: int
    ) -> None:
        job = submit(store)
        store.queue.cancel(job)
        store.queue.tidy(now() + timedelta(days=days))
        assert len(store.queue.events(job)) == told
        assert store.queue.job(job).last_event == told
        assert store.queue.job(job).state is JobState.CANCELLED

    def test_an_open_job_tells_everything_however_old(self, store: Store) -> None:
        job = submit(store)
        store.queue.tidy(now() + timedelta(days=365))
        assert [event.data["state"] for event in store.queue.events(job)] == ["queued"]
