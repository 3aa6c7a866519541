"""Where a schedule came from goes with it, on every database."""

from __future__ import annotations

from cache_samples import A76, TRACE, candidates, claim_new_round, conv, start_job, success

from tunebook.cache.records import Candidate, Source
from tunebook.cache.store import Store


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

    def test_what_the_search_finds_has_no_origin(self, store: Store) -> None:
        job = start_job(store)
        claimed = claim_new_round(store, job)
        (slot,) = store.store_candidates(claimed.id, claimed.epoch, candidates("found"))
        store.store_result(claimed.id, claimed.epoch, slot.number, success(1e-3))
        (record,) = store.records(conv().key.on(A76))
        assert (record.candidate.source, record.candidate.origin) == (Source.SEARCH, "")
