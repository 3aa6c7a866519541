"""Leases and several processes at once, whichever database is behind the store."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, tzinfo
from inspect import signature

import pytest
from cache_samples import (
    candidates,
    claim_new_round,
    conv,
    propose_all,
    start_job,
    success,
)
from processes import run_at_once, start
from store_contract import StoreFixtures

from tunebook.cache.errors import LeaseLostError
from tunebook.cache.storage import moments
from tunebook.cache.store import Store

LEASE = 10.0


class Clock:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class WallClock:
    """The wall clock of this process, as `time.time` and the store's `now` tell it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._hours = 0
        true_time = time.time
        monkeypatch.setattr(time, "time", lambda: true_time() + self._hours * 3600)

        class Stepped(datetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
                return datetime.now(tz) + timedelta(hours=wall._hours)

        wall = self
        # Column defaults and other modules hold the function `now` itself: it is moved from within.
        monkeypatch.setattr(moments, "datetime", Stepped)

    def step(self, hours: int) -> None:
        self._hours += hours


class LeaseContract(StoreFixtures):
    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def wall(self, monkeypatch: pytest.MonkeyPatch) -> WallClock:
        return WallClock(monkeypatch)

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
        self, store: Store, observer: Store, clock: Clock, wall: WallClock, url: str, hours: int
    ) -> None:
        # Far less than an hour, and more than this machine may stand still for.
        with Store.open(url, lease_seconds=600) as third:
            job = start_job(store)
            claimed = claim_new_round(store, job)
            for _ in range(2):
                assert observer.claim_round("second", job) is None
                assert third.claim_round("third", job) is None
                wall.step(hours)
            clock.now += LEASE - 1
            store.beat(claimed.id, claimed.epoch)
            wall.step(hours)
            assert start_job(store) == job
            clock.now += LEASE - 1
            assert observer.claim_round("second", job) is None
            clock.now += LEASE - 1
            wall.step(hours)
            assert observer.claim_round("second", job) is None
            assert third.claim_round("third", job) is None
            clock.now += 2
            wall.step(hours)
            assert observer.claim_round("second", job) is not None

    def test_a_lease_is_timed_by_the_monotonic_clock_where_nothing_else_is_said(self) -> None:
        """A step of the wall clock above is seen by those who ask for it, not by a default."""
        assert signature(Store.open).parameters["monotonic"].default is time.monotonic

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

    def test_four_processes_may_resume_and_finish_one_job_at_once(
        self, store: Store, url: str
    ) -> None:
        assert run_at_once(4, "resume_and_finish", url, 10) == [10] * 4
        job = start_job(store, conv(56), conv(28))
        assert store.propose_rounds(job, []) == 0
        assert store.budget(job).granted == 0

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
