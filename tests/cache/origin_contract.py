"""Where a schedule came from goes with it, on every database."""

from __future__ import annotations

import pytest
from cache_samples import (
    A76,
    TRACE,
    candidates,
    claim_new_round,
    conv,
    measure,
    model_of,
    serve,
    start_job,
    success,
)

from tunebook.cache.errors import DatabaseError
from tunebook.cache.records import Candidate, Source
from tunebook.cache.store import Store

A76_SPELT_OUT = A76.replace("+neon", "+neon,+rcpc")


class OriginContract:
    def test_an_origin_goes_with_a_candidate_into_its_slot_and_record(self, store: Store) -> None:
        job = start_job(store)
        claimed = claim_new_round(store, job)
        made = Candidate(TRACE, "made", Source.MIGRATION, "record 7 of another target")
        (slot,) = store.store_candidates(claimed.id, claimed.epoch, [made])
        assert slot.candidate == made
        store.store_result(claimed.id, claimed.epoch, slot.number, success(1e-3))
        (record,) = store.records(conv().key.on(A76))
        assert record.candidate == made
        assert store.record(record.id) == record

    def test_a_record_that_is_not_there_is_an_error(self, store: Store) -> None:
        with pytest.raises(DatabaseError, match="there is no record 7"):
            store.record(7)

    def test_what_the_search_finds_has_no_origin(self, store: Store) -> None:
        job = start_job(store)
        claimed = claim_new_round(store, job)
        (slot,) = store.store_candidates(claimed.id, claimed.epoch, candidates("found"))
        store.store_result(claimed.id, claimed.epoch, slot.number, success(1e-3))
        (record,) = store.records(conv().key.on(A76))
        assert (record.candidate.source, record.candidate.origin) == (Source.SEARCH, "")

    def test_an_adopted_record_is_verified_anew_before_it_is_served(self, store: Store) -> None:
        there = serve(store, conv(), seconds=2e-3)
        here = conv().key.on(A76_SPELT_OUT)
        (record,) = store.records(there)
        adopted = store.adopt_record(record.id, here, "record 1: the same code")
        assert store.lookup([here]).hits == {}
        (copy,) = store.unverified_best(here)
        assert (copy.id, copy.measurement) == (adopted, record.measurement)
        assert copy.candidate.origin == "record 1: the same code"
        store.mark_verified(adopted)
        served = store.lookup([here]).hits[here]
        assert (served.seconds, served.source) == (2e-3, Source.MIGRATION)

    def test_a_record_is_adopted_once_and_costs_no_trial(self, store: Store) -> None:
        there = serve(store, conv())
        here = conv().key.on(A76_SPELT_OUT)
        job = start_job(store, conv(), target=A76_SPELT_OUT)
        (record,) = store.records(there)
        first = store.adopt_record(record.id, here, "the same code")
        assert store.adopt_record(record.id, here, "again") == first
        assert len(store.records(here)) == 1
        assert store.budget(job).spent == 0

    def test_a_record_of_another_workload_is_not_adopted(self, store: Store) -> None:
        ids = measure(store, conv(), {"module": success(1e-3)})
        store.save_model(model_of([conv(7)]))
        with pytest.raises(DatabaseError, match="there is no record"):
            store.adopt_record(ids["module"], conv(7).key.on(A76), "the same code")
