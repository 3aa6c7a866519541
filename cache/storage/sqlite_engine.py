"""How a SQLite file is opened, and how its transactions begin."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL

from tunebook.cache.errors import DatabaseError

# Options of an engine whose transactions write, and may change tables.
WRITES = "tunebook_writes"
CHANGES_SCHEMA = "tunebook_changes_schema"
_BUSY_TIMEOUT_MS = 30_000


def sqlite_engine(url: URL, *, read_only: bool) -> Engine:
    """An engine for a file, which is created with its folder unless it is only read. Transactions
    begin as their engine's options say. Raises DatabaseError for no file, or none that can be had.
    """
    if not url.database or url.database == ":memory:":
        raise DatabaseError("a database in memory cannot be shared; give the path of a file")
    path = Path(url.database)
    if read_only:
        if not path.exists():
            raise DatabaseError(f"there is no database at {path}; tune first, or give --db")
        url = url.set(
            database=f"file:{quote(str(path))}", query={"uri": "true", **_read_only_mode(path)}
        )
    else:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DatabaseError(
                f"cannot create the folder {path.parent} for the database: {error.strerror}; "
                "give another one with --db"
            ) from None
    engine = create_engine(url)
    event.listen(engine, "connect", _prepare_read_only if read_only else _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _read_only_mode(path: Path) -> dict[str, str]:
    """SQLite needs to create `-shm` beside a WAL database even to read it; where it may not and
    no log is left from a writer, the file can be read as it is."""
    log = path.with_name(path.name + "-wal")
    if not os.access(path.parent, os.W_OK) and not log.exists():
        return {"mode": "ro", "immutable": "1"}
    return {"mode": "ro"}


def _prepare(connection: Any, _: Any) -> None:
    _prepare_read_only(connection, _)
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    # In WAL mode this loses no committed transaction when a process dies, only on a power cut.
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.close()


def _prepare_read_only(connection: Any, _: Any) -> None:
    # No transaction of the driver's own: `_begin` says which kind is wanted.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get(CHANGES_SCHEMA, False):
        # A table that is altered is copied and dropped while others refer to it; inside of a
        # transaction this could not be said any more.
        connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get(WRITES, False) else "BEGIN")
