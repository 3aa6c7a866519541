"""SQLite databases copied whole while others write to them, by SQLite's online backup."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from tunebook.cache.errors import DatabaseError
from tunebook.cache.storage.database import Database


def copy_to_file(database: Database, path: Path) -> None:
    """Copies what the database has at this moment, but for secrets that processes share, to a new
    file. Writers are not held up."""
    with database.explained(), closing(database.connect()) as connection:
        source = connection.driver_connection
        assert isinstance(source, sqlite3.Connection)
        with _told_of_room(path), closing(sqlite3.connect(path)) as copy:
            # In one step: a step that finds the source changed would begin anew, maybe for ever.
            source.backup(copy)
            _forget_secrets(copy)
            # The log of a writer is no part of a backup.
            copy.execute("PRAGMA journal_mode = DELETE")
            _check(copy, path)


@contextmanager
def _told_of_room(path: Path) -> Iterator[None]:
    """It is the copy that needs room, and not the database that it is made of."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "full" in str(error):
            raise DatabaseError(
                f"the copy {path} finds no room on its disk; free some, then run again"
            ) from error
        raise


def copy_from_file(path: Path, database: Database) -> None:
    """Puts what the file has in the place of what the database has, for everybody who has it open
    too, in one step."""
    with database.explained(), closing(database.connect()) as connection:
        target = connection.driver_connection
        assert isinstance(target, sqlite3.Connection)
        address = f"file:{quote(str(path))}?mode=ro&immutable=1"
        with closing(sqlite3.connect(address, uri=True)) as source:
            source.backup(target)


def _forget_secrets(copy: sqlite3.Connection) -> None:
    """They are made anew where they are missing: what was sealed before a restore, when numbers of
    the same kind counted other changes, holds no more after it."""
    if copy.execute("SELECT 1 FROM sqlite_master WHERE name = 'secrets'").fetchone():
        copy.execute("PRAGMA secure_delete = ON")
        copy.execute("DELETE FROM secrets")
        copy.commit()


def _check(copy: sqlite3.Connection, path: Path) -> None:
    (told,) = copy.execute("PRAGMA quick_check(1)").fetchone()
    if told != "ok":
        raise DatabaseError(
            f"the copy {path} is damaged ({told}), and so is the database that it was made of; "
            "restore that from an earlier backup"
        )
