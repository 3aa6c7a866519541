"""The database behind the store: SQLite by default, PostgreSQL for a fleet.

Every transaction states what it is for. A read takes one snapshot; a write takes SQLite's write
lock at once (`BEGIN IMMEDIATE`): with the driver's own deferred transactions concurrent writers
lose updates without an error. Faults of the database come out as one-line DatabaseErrors.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs
from sqlalchemy import Connection, Engine, PoolProxiedConnection, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.orm import Session

from tunebook.cache.errors import DatabaseError
from tunebook.cache.live.news import News
from tunebook.cache.storage.announcements import announced
from tunebook.cache.storage.database_faults import explain
from tunebook.cache.storage.schema import HEAD, check_version, create_schema, is_empty, version_of
from tunebook.cache.storage.server_engine import begin_schema_change, server_engine
from tunebook.cache.storage.sqlite_engine import CHANGES_SCHEMA, WRITES, sqlite_engine


def default_path() -> Path:
    """Where the database of this user lives unless told otherwise."""
    return platformdirs.user_data_path("tunebook", appauthor=False) / "tunebook.db"


def parse_url(text: str | None) -> URL:
    """Reads a database URL, or a plain path of a SQLite file; None is the user's own.

    Raises DatabaseError when it is neither, or names a kind of database other than the two.
    """
    if not text:
        return URL.create("sqlite", database=str(default_path()))
    if "://" not in text:
        return URL.create("sqlite", database=str(Path(text).expanduser()))
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise _no_url(text) from None
    if "@" in (url.host or ""):
        raise _no_url(text)
    if url.drivername == "sqlite":
        return url
    if url.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return _with_password_apart(url.set(drivername="postgresql+psycopg"))
    raise DatabaseError(
        f"a {url.drivername} database is not supported; give the path of a SQLite file, "
        "or postgresql://..."
    )


def _no_url(text: str) -> DatabaseError:
    # Errors end up in logs, and where a password begins and ends cannot be told.
    shown = f"{text.partition('://')[0]}://***" if "@" in text or "?" in text else text
    return DatabaseError(
        f"{shown!r} is no database URL; give a path or postgresql://..., with each of @ : / ? in a "
        "password as %40 %3A %2F %3F"
    )


def _with_password_apart(url: URL) -> URL:
    """The URL with a user and password that it names as parameters, as libpq lets it, where others
    look for them: nobody shows that password, or starts a program with it."""
    told = {name: values[-1] for name, values in url.normalized_query.items()}
    if "user" in told:
        url = url.set(username=told["user"])
    if "password" in told:
        url = url.set(password=told["password"])
    return url.difference_update_query(["user", "password"])


class Database:
    """An open database; `reading` and `writing` give sessions. Safe to share between threads,
    not across a fork."""

    def __init__(self, url: URL, engine: Engine) -> None:
        self.name = _name(url)
        self.is_file = engine.dialect.name == "sqlite"
        self._engine = engine
        self._write_engine = engine.execution_options(**{WRITES: True})
        self._schema_engine = engine.execution_options(**{WRITES: True, CHANGES_SCHEMA: True})
        self._listener: Callable[[str, float], None] | None = None
        self._follower: Callable[[News], None] | None = None
        self._read_engine = engine
        if engine.dialect.name == "postgresql":
            self._read_engine = engine.execution_options(isolation_level="REPEATABLE READ")

    @classmethod
    def open(cls, text: str | None, *, read_only: bool = False) -> Database:
        """Opens a database of this version; a SQLite file that is not there yet is created.

        Raises DatabaseError when it cannot be reached, is of another version, or is none.
        """
        url = parse_url(text)
        database = cls._connect(url, read_only=read_only)
        try:
            with database.explained(), database._engine.connect() as connection:
                empty = is_empty(connection)
            if empty and url.drivername == "sqlite" and not read_only:
                database._create_schema()
            with database.explained(), database._engine.connect() as connection:
                check_version(connection, database.name)
        except BaseException:
            database.close()
            raise
        return database

    @classmethod
    def open_any(cls, text: str | None, *, read_only: bool = False) -> Database:
        """Opens a database whatever its version, or without any table, to look after it."""
        return cls._connect(parse_url(text), read_only=read_only)

    @classmethod
    def _connect(cls, url: URL, *, read_only: bool) -> Database:
        if url.drivername == "sqlite":
            return cls(url, sqlite_engine(url, read_only=read_only))
        return cls(url, server_engine(url))

    @property
    def url(self) -> str:
        """What opens this database again, with the password where there is one."""
        return self._engine.url.render_as_string(hide_password=False)

    def close(self) -> None:
        self._engine.dispose()

    def listen(self, listener: Callable[[str, float], None]) -> None:
        """Tells how long each transaction takes from now on: `read` or `write`, and seconds."""
        self._listener = listener

    def follow(self, follower: Callable[[News], None]) -> None:
        """Tells from now on what was committed, if it is of interest to others. The follower waits
        for nothing, and raises nothing."""
        self._follower = follower

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that reads one snapshot."""
        with self._timed("read"), self.explained(), Session(self._read_engine) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A session that commits when left, and rolls back on an exception."""
        with self._timed("write"), self.explained(), Session(self._write_engine) as session:
            with session.begin():
                yield session
            news = announced(session)
        if news and self._follower is not None:
            self._follower(news)

    @contextmanager
    def _timed(self, kind: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            if self._listener is not None:
                self._listener(kind, time.perf_counter() - started)

    def version(self) -> str | None:
        """The schema that it has, whichever; None for a database without any table."""
        with self.explained(), self._engine.connect() as connection:
            return None if is_empty(connection) else version_of(connection, self.name)

    @contextmanager
    def changing_schema(self) -> Iterator[Connection]:
        """A connection whose transaction may change tables: all of it happens, or nothing."""
        try:
            with self.explained(), self._schema_engine.begin() as connection:
                begin_schema_change(connection)
                yield connection
        finally:
            # Its connection does not check foreign keys.
            self._engine.dispose()

    def _create_schema(self) -> str | None:
        """Runs the migrations that are missing; gives the version before, None for none."""
        with self.changing_schema() as connection:
            before = None if is_empty(connection) else version_of(connection, self.name)
            create_schema(connection)
        return before

    def check_reachable(self) -> None:
        """Raises DatabaseError where it does not answer, or is a file that is gone."""
        if self.is_file and not Path(self.name).exists():
            # Connections that are open would go on in a file that nobody else sees.
            raise DatabaseError(f"the database {self.name} is gone; restore it, then start again")
        with self.reading() as session:
            session.execute(select(1))

    def check_schema(self) -> None:
        """Raises DatabaseError where it is not, or no longer, of this version."""
        with self.explained(), self._engine.connect() as connection:
            check_version(connection, self.name)

    def connect(self) -> PoolProxiedConnection:
        """A connection outside of any transaction, for who closes it."""
        return self._engine.raw_connection()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Makes what the driver raises meanwhile a DatabaseError."""
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise explain(error, self.name) from error


def upgrade(text: str | None) -> tuple[str | None, str]:
    """Brings a database to this version's schema; gives the versions before and after.

    The first is None for an empty database. Raises DatabaseError for a newer one.
    """
    database = Database.open_any(text)
    try:
        return database._create_schema(), HEAD
    finally:
        database.close()


def _name(url: URL) -> str:
    if url.drivername == "sqlite":
        return url.database or ":memory:"
    return url.render_as_string(hide_password=True)
