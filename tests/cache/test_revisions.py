"""A copy of what is stored holds while its revision stays the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from cache_samples import A53, conv, failure, measure, model_of, serve, success

from tunebook.cache.records import ErrorClass
from tunebook.cache.statistics.lookup_statistics import LookupBatch
from tunebook.cache.store import Store
from tunebook.cache.stored.imported_records import ImportedRecord

Change = Callable[[Store], object]


@pytest.fixture(params=["sqlite_url", pytest.param("postgresql_url", marks=pytest.mark.postgresql)])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    with Store.open(request.getfixturevalue(request.param)) as opened:
        yield opened


def verify_the_last(store: Store) -> None:
    store.mark_verified(1)


def withdraw(store: Store) -> None:
    store.mark_failed(1, ErrorClass.WRONG_OUTPUT, "it differs")


def split_again(store: Store) -> None:
    store.save_model(model_of([conv(28), conv(56)]))


@pytest.mark.parametrize("change", [verify_the_last, withdraw, split_again])
def test_the_revision_of_schedules_rises_with_what_is_served(store: Store, change: Change) -> None:
    measure(store, conv(), {"a": success(1e-3)})
    before = store.revisions.now()
    change(store)
    assert store.revisions.now().schedules > before.schedules


def fail(store: Store) -> None:
    measure(store, conv(), {"b": failure()})


def take_in(store: Store) -> None:
    store.interchange.import_records([ImportedRecord(conv().key.on(A53), "[[], []]", (1e-3,))])


def count(store: Store) -> None:
    store.statistics.add(LookupBatch())


@pytest.mark.parametrize("change", [take_in, count])
def test_what_changes_nothing_that_is_served_leaves_it(store: Store, change: Change) -> None:
    serve(store, conv())
    before = store.revisions.now()
    change(store)
    assert store.revisions.now().schedules == before.schedules


@pytest.mark.parametrize("change", [fail, take_in, withdraw])
def test_a_file_tells_of_every_change_another_connection_made(
    sqlite_url: str, change: Change
) -> None:
    with Store.open(sqlite_url) as store, Store.open(sqlite_url) as other:
        measure(store, conv(), {"a": success(1e-3)})
        before = store.revisions.now()
        assert store.revisions.now() == before
        change(other)
        assert store.revisions.now().everything != before.everything


@pytest.mark.postgresql
def test_a_server_does_not_tell_of_every_change(postgresql_url: str) -> None:
    with Store.open(postgresql_url) as store:
        assert store.revisions.now().everything is None
