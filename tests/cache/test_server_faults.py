"""What a database server does to those who talk to it: connections that it closes, locks and
statements that take too long, and its end."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

import psutil
import pytest
from cache_samples import conv, model_of, serve, start_job
from postgresql_server import PostgresqlServer, postgresql_binaries, running_postgresql
from sqlalchemy import Connection, Engine, create_engine, event, text

from tunebook.cache.errors import DatabaseError
from tunebook.cache.storage.database import Database, parse_url, upgrade
from tunebook.cache.store import Store

pytestmark = pytest.mark.postgresql

# Of all other connections to the same database.
_END_OTHERS = """
    SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_SETTINGS = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")


@pytest.fixture
def database(postgresql_url: str) -> Iterator[Database]:
    opened = Database.open(postgresql_url)
    yield opened
    opened.close()


def end_connections(url: str) -> int:
    """Ends all connections to a database, as its administrator does; gives how many there were."""
    engine = create_engine(parse_url(url))
    try:
        with engine.connect() as connection:
            return int(connection.execute(text(_END_OTHERS)).scalar_one())
    finally:
        engine.dispose()


def one_line(error: pytest.ExceptionInfo[DatabaseError]) -> str:
    said = str(error.value)
    assert "\n" not in said
    return said


def test_a_connection_that_the_server_closed_between_two_calls_is_replaced(
    postgresql_url: str,
) -> None:
    with Store.open(postgresql_url) as store:
        key = serve(store, conv())
        assert end_connections(postgresql_url) >= 1
        assert list(store.lookup([key]).hits) == [key]
        assert end_connections(postgresql_url) >= 1
        store.save_model(model_of([conv(7)]))


def test_one_that_it_closes_within_a_transaction_is_one_error_and_nothing_of_it_is_written(
    postgresql_url: str, database: Database
) -> None:
    with pytest.raises(DatabaseError, match="closed the connection") as error:  # noqa: SIM117
        with database.writing() as session:
            session.execute(text("INSERT INTO targets (text, features) VALUES ('a', '')"))
            end_connections(postgresql_url)
            session.execute(text("INSERT INTO targets (text, features) VALUES ('b', '')"))
    one_line(error)
    with database.reading() as session:
        assert session.execute(text("SELECT count(*) FROM targets")).scalar_one() == 0


def test_one_that_it_closes_before_the_commit_is_one_error_and_the_next_call_works(
    postgresql_url: str, database: Database
) -> None:
    with pytest.raises(DatabaseError, match="closed the connection") as error:  # noqa: SIM117
        with database.writing() as session:
            session.execute(text("INSERT INTO targets (text, features) VALUES ('a', '')"))
            end_connections(postgresql_url)
    one_line(error)
    with database.writing() as session:
        session.execute(text("INSERT INTO targets (text, features) VALUES ('a', '')"))


def test_locks_statements_and_idle_transactions_have_a_time_limit(database: Database) -> None:
    with database.reading() as session:
        limits = [session.execute(text(f"SHOW {name}")).scalar_one() for name in _SETTINGS]
    assert "0" not in limits


def test_the_statements_of_a_migration_have_none(empty_postgresql_url: str) -> None:
    limits: set[str] = set()

    def look(connection: Connection, _c: object, statement: str, *_: object) -> None:
        driver: Any = connection.connection.driver_connection
        if statement.lstrip().startswith("CREATE INDEX"):
            limits.add(driver.execute("SHOW statement_timeout").fetchone()[0])

    event.listen(Engine, "after_cursor_execute", look)
    try:
        upgrade(empty_postgresql_url)
    finally:
        event.remove(Engine, "after_cursor_execute", look)
    assert limits == {"0"}


def test_a_lock_that_nobody_lets_go_of_is_given_up(postgresql_url: str) -> None:
    engine = create_engine(parse_url(postgresql_url))
    with (
        Store.open(with_options(postgresql_url, "-c lock_timeout=100ms")) as store,
        engine.begin() as holding,
    ):
        job = start_job(store)
        holding.execute(text("UPDATE jobs SET state = state"))
        with pytest.raises(DatabaseError, match="kept locked by another process") as error:
            store.finish_job(job, "done")
        one_line(error)
        holding.rollback()
        store.finish_job(job, "done")
        assert not store.job_is_open(job)
    engine.dispose()


def test_who_stands_still_within_a_transaction_loses_its_locks_and_writes_nothing(
    postgresql_url: str,
) -> None:
    with (
        Store.open(postgresql_url) as store,
        closing(Database.open(postgresql_url)) as standing_still,
    ):
        job = start_job(store)
        with pytest.raises(DatabaseError, match="closed the connection"):  # noqa: SIM117
            with standing_still.writing() as session:
                session.execute(text("UPDATE jobs SET reason = 'late'"))
                # Only now: before it had the lock it may stand still, too.
                session.execute(text("SET LOCAL idle_in_transaction_session_timeout = '100ms'"))
                store.finish_job(job, "done", "in time")
        with standing_still.reading() as session:
            assert session.execute(text("SELECT reason FROM jobs")).scalar_one() == "in time"


def test_a_statement_that_does_not_end_is_given_up(postgresql_url: str) -> None:
    with pytest.raises(DatabaseError, match="took too long to answer") as error:
        wait_for_server(with_options(postgresql_url, "-c statement_timeout=100ms"))
    one_line(error)


def test_a_server_that_takes_a_connection_and_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(DatabaseError, match="cannot be reached") as error:
            Store.open(f"postgresql://me@127.0.0.1:{port}/x?connect_timeout=2")
    one_line(error)


@pytest.fixture
def own_server() -> Iterator[PostgresqlServer]:
    """One that this test may end."""
    if postgresql_binaries() is None:
        pytest.skip("no PostgreSQL server is installed")
    with running_postgresql() as server:
        yield server


def test_a_store_outlives_its_server_and_nothing_that_it_had_stored_is_lost(
    own_server: PostgresqlServer, eventually: Callable[..., None], is_gone: Callable[[int], bool]
) -> None:
    with own_server.database() as url, Store.open(url) as store:
        key = serve(store, conv())
        processes = [one.pid for one in psutil.Process(own_server.pid).children()]
        own_server.kill()
        for _ in range(2):
            with pytest.raises(DatabaseError, match=r"cannot be reached|closed the conn") as error:
                store.lookup([key])
            one_line(error)
        # It does not start while one of those that it had has not noticed yet.
        eventually(lambda: all(is_gone(one) for one in processes), "nothing of it is left")
        own_server.start()
        assert list(store.lookup([key]).hits) == [key]
        store.save_model(model_of([conv(7)]))


def with_options(url: str, options: str) -> str:
    """The URL with what it says itself of how the server is to work."""
    return f"{url}&options={quote(options)}"


def wait_for_server(url: str) -> None:
    """Asks for something that takes a minute."""
    database = Database._connect(parse_url(url), read_only=False)
    try:
        with database.reading() as session:
            session.execute(text("SELECT pg_sleep(60)"))
    finally:
        database.close()
