"""Whoever claims on a server does not wait for who claims at the same time: two real transactions,
of which the first is still open while the second is made.

Each store here gives a lock up after a tenth of a second, so that one which waits fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from cache_samples import BOARD, conv, propose_all
from queue_samples import claim_searched, split, submit, submit_searched

from tunebook.cache.errors import DatabaseError
from tunebook.cache.queue.job_stages import claim_stage
from tunebook.cache.queue.leases import LeaseObserver
from tunebook.cache.queue.round_claims import WantedRounds, claim_round
from tunebook.cache.queue.submissions import BudgetLimits
from tunebook.cache.storage.database import Database
from tunebook.cache.store import Store

pytestmark = pytest.mark.postgresql


@pytest.fixture
def impatient_url(postgresql_url: str) -> str:
    return f"{postgresql_url}&options={quote('-c lock_timeout=100ms')}"


@pytest.fixture
def store(impatient_url: str) -> Iterator[Store]:
    with Store.open(impatient_url) as opened:
        yield opened


@pytest.fixture
def claimer(impatient_url: str) -> Iterator[Database]:
    """The one whose transaction stays open."""
    opened = Database.open(impatient_url)
    yield opened
    opened.close()


@pytest.fixture
def observer() -> LeaseObserver:
    return LeaseObserver(60.0, lambda: 0.0)


def searched(board_class: str = BOARD) -> WantedRounds:
    return WantedRounds(board_classes=[board_class], searched=True)


def test_two_who_claim_rounds_of_two_budgets_have_one_each(
    store: Store, claimer: Database, observer: LeaseObserver
) -> None:
    jobs = [submit_searched(store, conv(size)) for size in (28, 56)]
    for job in jobs:
        propose_all(store, job, 4)
    with claimer.writing() as session:
        first = claim_round(session, observer, "first", searched()).round
        second = claim_searched(store, "second")
        assert first is not None and second is not None
        assert {first.job_id, second.job_id} == set(jobs)


def test_two_who_claim_the_only_round_do_not_wait_for_each_other(
    store: Store, claimer: Database, observer: LeaseObserver
) -> None:
    propose_all(store, submit_searched(store), 4)
    with claimer.writing() as session:
        assert claim_round(session, observer, "first", searched()).round is not None
        assert claim_searched(store, "second") is None


def test_a_round_that_is_gone_on_with_costs_its_budget_nothing_and_is_not_waited_for(
    store: Store, claimer: Database, observer: LeaseObserver
) -> None:
    job = submit_searched(store, conv(28), conv(56))
    propose_all(store, job, 4)
    for claimed in [claim_searched(store), claim_searched(store)]:
        assert claimed is not None
        store.release_round(claimed.id, claimed.epoch)
    with claimer.writing() as session:
        first = claim_round(session, observer, "first", searched()).round
        second = claim_searched(store, "second")
        assert first is not None and second is not None
        assert first.id != second.id


def test_a_budget_that_two_claim_from_is_granted_by_one_after_the_other(
    store: Store, claimer: Database, observer: LeaseObserver
) -> None:
    """That is what makes it exact: the second waits until the first has committed."""
    job = submit_searched(store, conv(28), conv(56), budget=BudgetLimits(trials=6))
    propose_all(store, job, 4)
    with claimer.writing() as session:
        first = claim_round(session, observer, "first", searched()).round
        with pytest.raises(DatabaseError, match="kept locked"):
            claim_searched(store, "second")
    second = claim_searched(store, "second")
    assert first is not None and second is not None
    assert (first.size, second.size) == (4, 2)


@pytest.mark.parametrize("stage", ["split", "recover"])
def test_two_who_claim_a_stage_have_one_each(
    store: Store, claimer: Database, observer: LeaseObserver, stage: str
) -> None:
    sizes = (28, 56)
    jobs = [submit(store, conv(size)) for size in sizes]
    if stage == "recover":
        for size in sizes:
            split(store, conv(size))
    with claimer.writing() as session:
        first = claim_stage(session, observer, "first", [stage], [BOARD]).stage
        second = store.queue.claim_stage("second", [stage], [BOARD])
        third = store.queue.claim_stage("third", [stage], [BOARD])
        assert first is not None and second is not None
        assert {first.job_id, second.job_id} == set(jobs)
        assert third is None
