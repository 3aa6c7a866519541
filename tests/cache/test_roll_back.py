"""Databases go back to every released schema and forward again, on both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cache_samples import (
    A76,
    candidates,
    claim_new_round,
    conv,
    run_sql,
    serve,
    start_job,
    success,
)
from queue_samples import SERVED, claim_new_searched, submit, submit_searched
from released_schemas import OLD_KEY, Rows, released, rows_now
from sqlalchemy import create_engine, inspect, text

from tunebook.cache.errors import DatabaseError, UsageError
from tunebook.cache.queue.leases import Holder
from tunebook.cache.queue.submissions import BudgetLimits
from tunebook.cache.storage import schema
from tunebook.cache.storage.database import Database, parse_url, upgrade
from tunebook.cache.store import Store
from tunebook.cache.upkeep.at_work import workers_at_work
from tunebook.cache.upkeep.roll_back import RollBack, roll_back

BOTH = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]
# Tables that were called otherwise before a schema.
RENAMED = {"0004": {"board_peaks": "boards"}}


@pytest.fixture(params=BOTH)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database of this version's schema with nothing in it."""
    found = str(request.getfixturevalue(f"{request.param}_url"))
    yield found
    # The next test may be given it too.
    upgrade(found)


def taken_back(url: str, revision: str) -> RollBack:
    return roll_back(url, revision, accept_loss=True, despite_workers=True)


def shape_of(url: str) -> dict[str, Any]:
    """Every table with its columns, keys and indexes, in no order."""
    engine = create_engine(parse_url(url))
    try:
        with engine.connect() as connection:
            look = inspect(connection)
            return {
                table: (
                    sorted(
                        (one["name"], str(one["type"]), one["nullable"])
                        for one in look.get_columns(table)
                    ),
                    sorted(look.get_pk_constraint(table)["constrained_columns"]),
                    sorted(str(one["column_names"]) for one in look.get_unique_constraints(table)),
                    sorted(
                        (str(one["name"]), str(one["column_names"]), bool(one["unique"]))
                        for one in look.get_indexes(table)
                    ),
                    sorted(
                        (str(one["constrained_columns"]), one["referred_table"])
                        for one in look.get_foreign_keys(table)
                    ),
                )
                for table in look.get_table_names()
            }
    finally:
        engine.dispose()


def numbers(url: str, statement: str) -> list[tuple[Any, ...]]:
    engine = create_engine(parse_url(url))
    try:
        with engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text(statement))]
    finally:
        engine.dispose()


def dangling_references(url: str) -> list[tuple[Any, ...]]:
    """Rows that refer to none, which SQLite finds when asked and PostgreSQL never has."""
    return numbers(url, "PRAGMA foreign_key_check") if "://" not in url else []


@dataclass(frozen=True)
class WentBack:
    """A database with a row in every table that went back to an older schema."""

    url: str
    revision: str
    done: RollBack
    rows_before: Rows
    rows_after: Rows
    shape_after: dict[str, Any]
    shape_released: dict[str, Any]


@pytest.fixture(scope="module", params=BOTH)
def empty_urls(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], str]:
    """Gives the URL of another database without any table with each call."""
    if request.param == "sqlite":
        return lambda: str(tmp_path_factory.mktemp("schema") / "tunebook.db")
    make: Callable[[], str] = request.getfixturevalue("postgresql_server").empty_database
    return make


@pytest.fixture(scope="module", params=schema.OLDER)
def went_back(request: pytest.FixtureRequest, empty_urls: Callable[[], str]) -> WentBack:
    url, fresh, revision = empty_urls(), empty_urls(), str(request.param)
    before = released(url, schema.HEAD)
    done = taken_back(url, revision)
    released(fresh, revision)
    return WentBack(url, revision, done, before, rows_now(url), shape_of(url), shape_of(fresh))


class TestEverySchema:
    def test_what_the_older_schema_can_hold_stays(self, went_back: WentBack) -> None:
        assert went_back.done.after == went_back.revision
        newer = {
            old: new
            for version, names in RENAMED.items()
            if version > went_back.revision
            for new, old in names.items()
        }
        kept = {name: went_back.rows_before[newer.get(name, name)] for name in went_back.rows_after}
        assert went_back.rows_after == {
            name: {column: kept[name][column] for column in row}
            for name, row in went_back.rows_after.items()
        }

    def test_the_schema_is_the_one_that_was_released(self, went_back: WentBack) -> None:
        assert went_back.shape_after == went_back.shape_released

    def test_after_an_upgrade_it_is_gone_on_with(self, went_back: WentBack) -> None:
        url = went_back.url
        assert upgrade(url) == (went_back.revision, schema.HEAD)
        assert dangling_references(url) == []
        with Store.open(url) as store:
            assert list(store.lookup([OLD_KEY]).hits) == [OLD_KEY]
            assert serve(store, conv()) in store.lookup([conv().key.on(A76)]).hits


class TestSubmittedJobs:
    """Schema 0002 has none: only local commands tuned."""

    def test_their_trials_are_charged_to_their_models_and_take_nothing_from_others(
        self, url: str
    ) -> None:
        with Store.open(url) as store:
            local = start_job(store, conv(), trials=10)
            night, _ = store.queue.create_budget("night", BudgetLimits(trials=50))
            job = submit_searched(store, conv(), budget=night)
            claimed = claim_new_searched(store, job, size=4)
            store.store_candidates(claimed.id, claimed.epoch, candidates("a", "b"))
            store.store_result(claimed.id, claimed.epoch, 0, success(2e-3))
            store.mark_verified(store.records(conv().key.on(A76))[0].id)
            submit_searched(store, conv(28), budget=night)
            unsplit = submit(store, conv(14))
        taken_back(url, "0002")
        assert dangling_references(url) == []
        jobs = dict(numbers(url, "SELECT id, state FROM jobs"))
        assert (jobs[local], jobs[job]) == ("open", "cancelled")
        assert unsplit not in jobs
        assert numbers(url, "SELECT trial_limit, granted, spent FROM budgets ORDER BY id") == [
            (11, 1, 1),
            (0, 0, 0),
        ]
        assert numbers(url, "SELECT state, granted FROM rounds") == [("closed", 1)]
        upgrade(url)
        with Store.open(url) as store:
            assert list(store.lookup([conv().key.on(A76)]).hits) == [conv().key.on(A76)]
            budget = store.budget(local)
            assert budget.limit - budget.granted == 10
            claim_new_round(store, local)

    def test_what_is_lost_is_named_and_has_to_be_accepted(self, url: str) -> None:
        with Store.open(url) as store:
            submit(store, conv())
            key = serve(store, conv(28))
        with pytest.raises(UsageError) as error:
            roll_back(url, "0002", despite_workers=True)
        told = str(error.value)
        assert "1 submitted jobs that were not split yet" in told
        assert "--accept-loss" in told
        assert "access tokens" not in told
        with Store.open(url) as store:
            assert list(store.lookup([key]).hits) == [key]

    def test_where_nothing_is_lost_nothing_has_to_be_accepted(self, url: str) -> None:
        assert roll_back(url, "0003") == RollBack(schema.HEAD, "0003", ())


class TestOneTransaction:
    def test_one_that_fails_half_way_has_changed_nothing(self, url: str) -> None:
        """What somebody else has made stands in its way only after the first migration."""
        if "://" in url:
            run_sql(url, "CREATE VIEW somebodys AS SELECT name FROM tokens")
        else:
            run_sql(url, "CREATE TABLE _alembic_tmp_jobs (id INTEGER)")
        before = shape_of(url)
        with pytest.raises(DatabaseError):
            taken_back(url, "0002")
        assert shape_of(url) == before
        assert numbers(url, "SELECT version_num FROM alembic_version") == [(schema.HEAD,)]
        if "://" in url:
            run_sql(url, "DROP VIEW somebodys")


class TestRefusing:
    @pytest.mark.parametrize("revision", [schema.HEAD, "0099", "head", ""])
    def test_only_an_older_released_schema_is_gone_back_to(
        self, sqlite_url: str, revision: str
    ) -> None:
        with pytest.raises(UsageError, match="can go back to 0001, 0002, 0003, and not to"):
            roll_back(sqlite_url, revision)

    def test_an_older_database_goes_back_further(self, sqlite_url: str) -> None:
        roll_back(sqlite_url, "0003")
        assert roll_back(sqlite_url, "0001").before == "0003"
        with pytest.raises(UsageError, match="can go back to none"):
            roll_back(sqlite_url, "0001")

    def test_where_somebody_else_goes_back_meanwhile_nothing_more_is_done(self, url: str) -> None:
        def somebody_goes_back(_: Database) -> tuple[str, ...]:
            roll_back(url, "0003")
            return ()

        with pytest.raises(UsageError, match="has schema 0003, which can go back to 0001, 0002"):
            roll_back(url, "0003", at_work=somebody_goes_back)

    def test_a_file_that_is_not_there_is_not_made(self, tmp_path: Path) -> None:
        with pytest.raises(DatabaseError, match="no database"):
            roll_back(str(tmp_path / "tunebook.db"), "0003")
        assert list(tmp_path.iterdir()) == []

    def test_a_database_that_workers_use_stays_as_it_is(self, url: str) -> None:
        with pytest.raises(DatabaseError, match=r"one, two at work .* or give --despite-workers"):
            roll_back(url, "0003", at_work=lambda _: ("one", "two"))
        assert numbers(url, "SELECT version_num FROM alembic_version") == [(schema.HEAD,)]


class TestWhoIsAtWork:
    """Each look at the database is followed by one when the beats have had time to move."""

    @pytest.fixture
    def look(self, url: str) -> Any:
        """Who is at work; `meanwhile` happens during each of the waits."""

        def at_work(meanwhile: Any = None) -> tuple[tuple[str, ...], int]:
            waits: list[float] = []

            def sleep(seconds: float) -> None:
                waits.append(seconds)
                if meanwhile is not None:
                    meanwhile()

            database = Database.open_any(url)
            found = workers_at_work(
                database, look_seconds=10, monotonic=lambda: sum(waits), sleep=sleep
            )
            database.close()
            return found, len(waits)

        return at_work

    @pytest.fixture
    def store(self, url: str) -> Any:
        with Store.open(url) as opened:
            yield opened

    def test_nobody_is_told_at_once(self, look: Any) -> None:
        assert look() == ((), 0)

    def test_workers_are_whose_beat_moves(self, look: Any, store: Store) -> None:
        store.fleet.announce("stuck", [SERVED])
        store.fleet.announce("alive", [SERVED])
        found, _ = look(meanwhile=lambda: store.fleet.announce("alive", [SERVED]))
        assert found == ("alive",)

    def test_a_local_command_that_measures_is_at_work_too(self, look: Any, store: Store) -> None:
        job = start_job(store, conv())
        claimed = claim_new_round(store, job, worker="tunebook tune")
        found, _ = look(meanwhile=lambda: store.beat(claimed.id, claimed.epoch))
        assert found == ("tunebook tune",)

    def test_a_process_of_this_machine_that_is_gone_is_not_waited_for(
        self, url: str, look: Any, store: Store
    ) -> None:
        store.fleet.announce("gone", [SERVED])
        here = Holder.this_process()
        gone = Holder(here.place, here.pid, "1")
        run_sql(url, "UPDATE workers SET holder = :holder", holder=str(gone))
        assert look() == ((), 0)

    def test_in_a_schema_without_workers_only_rounds_count(self, url: str, look: Any) -> None:
        with Store.open(url) as store:
            start_job(store, conv())
        taken_back(url, "0001")
        assert look() == ((), 0)
