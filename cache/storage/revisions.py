"""Whether copies of what is stored still hold: numbers that rise with every change.

A copy that was made after `RevisionWatch.now` holds as long as `now` gives the same: a change in
between counts as one after it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import PoolProxiedConnection, select
from sqlalchemy.orm import Session

from tunebook.cache.storage.database import Database
from tunebook.cache.storage.identities import insert_or_update
from tunebook.cache.storage.tables import RevisionRow

# What look-ups are answered with, misses aside: served schedules, and what models split into.
SCHEDULES = "schedules"
# Access tokens: made, or revoked.
TOKENS = "tokens"
# Which records are suspect: records became so that were not.
SUSPECTS = "suspects"
# Jobs and budgets: nobody keeps copies of them, but who submits waits here for who did before.
SUBMISSIONS = "submissions"


@dataclass(frozen=True)
class Revision:
    """The state of a database at one moment.

    `schedules` changes with what hits are answered with, `tokens` with the access tokens;
    `everything` with any change at all, and is None where that cannot be told.
    """

    schedules: int
    tokens: int
    everything: int | None


def bump(session: Session, name: str) -> None:
    """Says in the transaction of a change that there was one. It locks the row until the end of
    the transaction, so it is the last thing that one does, or else the first."""
    statement = insert_or_update(
        session, RevisionRow, ["name"], lambda _: {"number": RevisionRow.number + 1}
    )
    session.execute(statement, {"name": name, "number": 1})


class RevisionWatch:
    """Reads revisions often and cheaply; safe to share between threads.

    SQLite tells a connection from shared memory whether others have committed anything, and only
    then the rows are read. A server is asked for them each time.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._connection: PoolProxiedConnection | None = None
        self._latest = Revision(0, 0, None)

    @property
    def is_quick(self) -> bool:
        """Whether `now` takes microseconds, and may be asked where nothing may wait."""
        return self._database.is_file

    def now(self) -> Revision:
        """The present state. Raises DatabaseError."""
        if not self._database.is_file:
            with self._database.reading() as session:
                rows = session.execute(select(RevisionRow.name, RevisionRow.number)).all()
                return _revision(rows, None)
        with self._lock, self._database.explained():
            if self._connection is None:
                self._connection = self._database.connect()
            driver: Any = self._connection.driver_connection
            # Before the rows: what changes in between is noticed the next time, and not lost.
            (everything,) = driver.execute("PRAGMA data_version").fetchone()
            if everything != self._latest.everything:
                rows = driver.execute("SELECT name, number FROM revisions").fetchall()
                self._latest = _revision(rows, everything)
            return self._latest

    def close(self) -> None:
        """Gives the connection back; the next `now` takes another."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


def _revision(rows: Iterable[Any], everything: int | None) -> Revision:
    numbers: dict[str, int] = dict(rows)
    return Revision(numbers.get(SCHEDULES, 0), numbers.get(TOKENS, 0), everything)
