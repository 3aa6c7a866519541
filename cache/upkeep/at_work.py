"""Who works on a database now, whatever version of the schema it has."""

from __future__ import annotations

import time
from collections.abc import Callable

from sqlalchemy import inspect, select
from sqlalchemy.orm import Session, load_only

from tunebook.cache.errors import DatabaseError
from tunebook.cache.queue.leases import Lease, Leased, LeaseObserver
from tunebook.cache.storage.database import Database
from tunebook.cache.storage.tables import OPEN, RoundRow, WorkerRow

# More than the time in which whoever is alive says so, several times over.
_LOOK_SECONDS = 10.0


def workers_at_work(
    database: Database,
    *,
    look_seconds: float = _LOOK_SECONDS,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[str, ...]:
    """The names of the workers that are alive, and of local commands that measure now.

    Where there may be any it takes `look_seconds`: that is how long a beat has to stand still.
    """
    watches = [_Watch(_workers, look_seconds, monotonic), _Watch(_rounds, look_seconds, monotonic)]
    if not any(watch.alive(database) for watch in watches):
        return ()
    deadline = monotonic() + look_seconds
    while monotonic() <= deadline:
        sleep(look_seconds / 10)
    return tuple(sorted({name for watch in watches for name in watch.alive(database)}))


def require_nobody_at_work(
    database: Database, at_work: Callable[[Database], tuple[str, ...]] = workers_at_work
) -> None:
    """Raises DatabaseError while anybody works on the database."""
    if names := at_work(database):
        raise DatabaseError(
            f"{', '.join(names)} at work on the database {database.name}; stop workers and "
            "coordinators first, or give --despite-workers"
        )


class _Watch:
    """Those of one kind of row that are alive, from one look to the next."""

    def __init__(
        self,
        read: Callable[[Session], dict[Lease, Leased]],
        look_seconds: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._read = read
        self._observer = LeaseObserver(look_seconds, monotonic)

    def alive(self, database: Database) -> set[str]:
        with database.reading() as session:
            rows = self._read(session)
            dead = set(self._observer.dead(rows.values()))
            return {_name(row) for lease, row in rows.items() if lease not in dead}


def _workers(session: Session) -> dict[Lease, Leased]:
    # Schemas before 0003 have none.
    if not inspect(session.connection()).has_table(WorkerRow.__tablename__):
        return {}
    return {Lease.of(row): row for row in session.scalars(select(WorkerRow))}


def _rounds(session: Session) -> dict[Lease, Leased]:
    # Only what every schema has.
    columns = (RoundRow.id, RoundRow.epoch, RoundRow.beat, RoundRow.worker, RoundRow.holder)
    claimed = (
        select(RoundRow)
        .options(load_only(*columns))
        .where(RoundRow.state == OPEN, RoundRow.worker.is_not(None))
    )
    return {Lease.of(row): row for row in session.scalars(claimed)}


def _name(row: Leased) -> str:
    return row.name if isinstance(row, WorkerRow) else str(row.worker)
