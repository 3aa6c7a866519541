"""What a Store commits that others wait for, it tells once it is committed; and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from cache_samples import propose_all
from drift_contract import drift, learn, refer
from lease_contract import LEASE, Clock
from postgresql_server import PostgresqlServer
from queue_samples import (
    TRIALS,
    claim_new_searched,
    claim_recovery,
    claim_searched,
    claim_split,
    recover,
    request_for,
    split,
    submit,
    submit_searched,
)

from tunebook.cache.errors import LeaseLostError, UsageError
from tunebook.cache.live.news import News
from tunebook.cache.queue.submissions import BudgetLimits
from tunebook.cache.store import Store


class Told:
    """What was told, and how much of each job's events others see by then."""

    def __init__(self, store: Store, other: Store) -> None:
        self.news: list[News] = []
        self._other = other
        store.follow(self._hear)

    def _hear(self, news: News) -> None:
        for job_id, number in news.events.items():
            # Whoever hears of it finds it.
            assert self._other.queue.last_events([job_id])[job_id] >= number
        self.news.append(news)


@pytest.fixture(params=["sqlite_url", pytest.param("postgresql_url", marks=pytest.mark.postgresql)])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with Store.open(url) as opened:
        yield opened


@pytest.fixture
def other(url: str) -> Iterator[Store]:
    with Store.open(url) as opened:
        yield opened


def finish_split(store: Store) -> None:
    split(store)


def release_split(store: Store) -> None:
    claimed = claim_split(store)
    assert claimed is not None
    store.queue.release_stage(claimed.job_id, claimed.epoch)


def finish_recovery(store: Store) -> None:
    recover(store)


def release_round(store: Store) -> None:
    claimed = claim_searched(store)
    assert claimed is not None
    store.release_round(claimed.id, claimed.epoch)


def finish_round(store: Store) -> None:
    claimed = claim_searched(store)
    assert claimed is not None
    store.finish_round(claimed.id, claimed.epoch)


def with_proposals(store: Store) -> None:
    propose_all(store, submit_searched(store), size=4)


def enlarge_budget(store: Store) -> None:
    store.queue.submit(request_for(), BudgetLimits(trials=1000))


def refer_well(store: Store) -> None:
    refer(store, 1.0, 1.0)


# What is there before, and what makes work.
MAKES_WORK: dict[str, tuple[Callable[[Store], object], Callable[[Store], object]]] = {
    "a job is submitted": (lambda store: None, submit),
    "a budget is enlarged": (submit_searched, enlarge_budget),
    "a model is split": (submit, finish_split),
    "a stage is released": (submit, release_split),
    "a job is recovered": (lambda store: (submit(store), split(store)), finish_recovery),
    "a round is released": (with_proposals, release_round),
    "a round is finished": (with_proposals, finish_round),
    "a board drifted": (learn, drift),
    "a board came back": (lambda store: (learn(store), drift(store)), refer_well),
}


@pytest.mark.parametrize("what", MAKES_WORK)
def test_what_makes_work_for_others_is_told(store: Store, other: Store, what: str) -> None:
    before, act = MAKES_WORK[what]
    before(store)
    told = Told(store, other)
    act(store)
    assert any(news.work for news in told.news)


@pytest.mark.parametrize("claim", [claim_split, claim_recovery, claim_searched])
def test_a_lease_that_dies_is_work_for_others(
    url: str, other: Store, claim: Callable[..., object]
) -> None:
    clock = Clock()
    with Store.open(url, lease_seconds=LEASE, monotonic=clock) as store:
        prepare = {claim_split: submit, claim_searched: with_proposals}
        prepare.get(claim, lambda store: (submit(store), split(store)))(store)
        assert claim(store) is not None
        told = Told(store, other)
        store.queue.end_spent()
        assert told.news == []
        clock.now += 2 * LEASE
        store.queue.end_spent()
        assert [news.work for news in told.news] == [True]


def test_events_are_told_with_their_numbers(store: Store, other: Store) -> None:
    told = Told(store, other)
    job = submit(store)
    store.queue.cancel(job)
    assert [dict(news.events) for news in told.news] == [{job: 1}, {job: 2}]


def test_what_was_not_committed_is_not_told(store: Store, other: Store) -> None:
    job = submit_searched(store)
    claimed = claim_new_searched(store, job)
    store.release_round(claimed.id, claimed.epoch)
    told = Told(store, other)
    with pytest.raises(LeaseLostError):
        store.finish_round(claimed.id, claimed.epoch)
    with pytest.raises(UsageError):
        store.queue.submit(replace(request_for(), priority=0), TRIALS)
    assert told.news == []


def test_looking_is_no_news(store: Store, other: Store) -> None:
    job = submit(store)
    told = Told(store, other)
    store.queue.job(job)
    assert claim_recovery(store) is None
    assert claim_split(store) is not None
    assert told.news == []


def test_each_database_has_a_place_of_its_own_that_all_agree_on(
    store: Store, other: Store, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert store.place() == other.place()
    with Store.open(str(tmp_path_factory.mktemp("another") / "book.db")) as another:
        assert another.place() != store.place()


@pytest.mark.postgresql
def test_databases_of_one_server_have_places_of_their_own(
    postgresql_server: PostgresqlServer, postgresql_url: str
) -> None:
    with (
        Store.open(postgresql_url) as one,
        postgresql_server.database() as url,
        Store.open(url) as another,
    ):
        assert one.place() != another.place()
