"""Databases of every released schema become ones of this, with all that they hold, on both."""

from __future__ import annotations

from pathlib import Path

import pytest
from cache_samples import candidates, claim_new_round, conv, serve, start_job, success
from released_schemas import OLD_KEY, OLD_MODEL, released, rows_now

from tunebook.cache.records import Source
from tunebook.cache.storage import schema
from tunebook.cache.storage.database import upgrade
from tunebook.cache.store import Store

# Tables that were called otherwise.
RENAMED = {"boards": "board_peaks"}


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "old.db")
    return str(request.getfixturevalue("empty_postgresql_url"))


@pytest.fixture(params=schema.OLDER)
def revision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_an_upgrade_keeps_every_row_of_every_table(empty_url: str, revision: str) -> None:
    before = released(empty_url, revision)
    assert upgrade(empty_url) == (revision, schema.HEAD)
    after = rows_now(empty_url)
    kept = {
        name: {column: after[RENAMED.get(name, name)][column] for column in row}
        for name, row in before.items()
    }
    assert kept == before


def test_an_upgraded_database_is_gone_on_with(empty_url: str, revision: str) -> None:
    released(empty_url, revision)
    upgrade(empty_url)
    with Store.open(empty_url) as store:
        served = store.lookup([OLD_KEY]).hits[OLD_KEY]
        assert (served.seconds, served.source) == (1e-3, Source.SEARCH)
        (record,) = store.records(OLD_KEY)
        assert (record.verified, record.measurement.board_class) == (True, "pi")
        old = store.find_model(OLD_MODEL.digest, OLD_MODEL.shapes, OLD_KEY.target, OLD_KEY.compiler)
        assert old is not None
        assert old.keys == (OLD_KEY,)
        job = store.submit_job(store.save_model(old), "pi", trials=None, more=3)
        # What was spent before counts.
        assert (store.budget(job).limit, store.budget(job).spent) == (9, 1)
        # Its new rows have numbers of their own.
        claimed = claim_new_round(store, job, size=2)
        store.store_candidates(claimed.id, claimed.epoch, candidates("new"))
        store.store_result(claimed.id, claimed.epoch, 0, success(2.0))
        assert len(store.records(OLD_KEY)) == 2
        assert serve(store, conv()) in store.lookup([conv().key.on(OLD_KEY.target)]).hits
        start_job(store, conv(7))
