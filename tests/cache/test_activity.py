"""What workers did since the last look, on both databases: each trial and round told once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cache_samples import (
    BOARD,
    candidates,
    claim_new_round,
    conv,
    failure,
    measure,
    start_job,
    success,
)

from tunebook.cache.statistics.activity import TrialClass
from tunebook.cache.store import Store

MEASURED = TrialClass(BOARD, "measured")


@pytest.fixture(params=["sqlite_url", pytest.param("postgresql_url", marks=pytest.mark.postgresql)])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    with Store.open(request.getfixturevalue(request.param)) as opened:
        yield opened


def test_nothing_is_told_of_what_was_before(store: Store) -> None:
    measure(store, conv(56), {"a": success(1.0)})
    activity = store.watch_activity().read()
    assert (activity.trials, activity.round_seconds) == ({}, ())


def test_trials_are_told_once_by_class_and_outcome(store: Store) -> None:
    activity = store.watch_activity()
    measure(store, conv(56), {"a": success(1.0), "b": success(2.0), "c": failure()})
    assert activity.read().trials == {MEASURED: 2, TrialClass("", "run"): 1}
    assert activity.read().trials == {}


def test_trials_of_a_round_that_goes_on_are_told_as_they_come(store: Store) -> None:
    job = start_job(store)
    claimed = claim_new_round(store, job, size=3)
    slots = store.store_candidates(claimed.id, claimed.epoch, candidates("a", "b", "c"))
    store.store_result(claimed.id, claimed.epoch, slots[0].number, success(1.0))
    activity = store.watch_activity()
    for slot in slots[1:]:
        store.store_result(claimed.id, claimed.epoch, slot.number, success(1.0))
        assert activity.read().trials == {MEASURED: 1}
    store.finish_round(claimed.id, claimed.epoch, seconds=4.5)
    last = activity.read()
    assert (last.trials, last.round_seconds) == ({}, (4.5,))
    assert activity.read().round_seconds == ()


def test_a_repeat_that_is_never_charged_is_no_trial(store: Store) -> None:
    job = start_job(store)
    claimed = claim_new_round(store, job, size=1)
    (slot,) = store.store_candidates(claimed.id, claimed.epoch, candidates("a"))
    activity = store.watch_activity()
    for _ in range(2):
        store.store_result(claimed.id, claimed.epoch, slot.number, success(1.0))
    assert activity.read().trials == {MEASURED: 1}


def test_what_is_open_is_told_as_it_is_now(store: Store) -> None:
    activity = store.watch_activity()
    job = start_job(store, conv(56), conv(28))
    claim_new_round(store, job)
    now = activity.read()
    assert (now.claimed_rounds, now.free_rounds) == (1, 1)
    assert now.open_jobs == {"search": 1}
    store.finish_job(job, "done")
    now = activity.read()
    assert (now.claimed_rounds, now.free_rounds, now.open_jobs) == (0, 0, {})


def test_board_seconds_are_those_of_all_budgets(store: Store) -> None:
    measure(store, conv(56), {"a": success(1.0, board_seconds=2.5)})
    measure(store, conv(28), {"a": success(1.0, board_seconds=4.0)})
    assert store.watch_activity().read().board_seconds == pytest.approx(6.5)
