"""The workers that are there now, and the boards that they have."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from tunebook.cache.queue.leases import Holder, Lease, LeaseObserver
from tunebook.cache.storage.database import Database
from tunebook.cache.storage.identities import insert_missing
from tunebook.cache.storage.moments import now
from tunebook.cache.storage.tables import OPEN, BoardRow, JobRow, WorkerRow


@dataclass(frozen=True)
class ServedBoard:
    """A board that a worker has: its class, its own name, and what it said of itself last
    (governor, frequency, temperature, load), where it says anything."""

    board_class: str
    board: str
    emulated: bool
    cores: int
    state: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class WorkerPresence:
    """A worker that is alive. `activity` is what it does now, in a few words."""

    name: str
    host: str
    boards: tuple[ServedBoard, ...]
    activity: str
    compiler: str
    started_at: datetime


@dataclass(frozen=True)
class ServedFleet:
    """How many workers are alive, and how many boards they have of each class; 0 of one that an
    open submitted job wants."""

    workers: int
    boards: Mapping[str, int]


class Fleet:
    """The workers that are there now, and the boards that they have.

    A worker is alive while the beat of its row moves on this process's monotonic clock, and dead at
    once when it was a process of this machine that is gone. One that this process sees for the
    first time is alive. The wall clock decides nothing.
    """

    def __init__(self, database: Database, observer: LeaseObserver) -> None:
        self._database = database
        self._observer = observer

    def announce(
        self, name: str, boards: Sequence[ServedBoard], activity: str = "", compiler: str = ""
    ) -> None:
        """Says that this process is there as the worker `name`, with these boards; to be said again
        well within each lease. The first time, the rows of dead workers are cleared away."""
        values: dict[str, Any] = {
            "host": socket.gethostname(),
            "holder": str(Holder.this_process()),
            "boards": [asdict(board) for board in boards],
            "activity": activity,
            "compiler": compiler,
        }
        with self._database.writing() as session:
            if insert_missing(session, WorkerRow, {"name": name, **values}):
                self.clear_dead(session)
                return
            session.execute(
                update(WorkerRow)
                .where(WorkerRow.name == name, WorkerRow.holder != values["holder"])
                .values(started_at=now())
            )
            session.execute(
                update(WorkerRow)
                .where(WorkerRow.name == name)
                .values(beat=WorkerRow.beat + 1, **values)
            )

    def leave(self, name: str) -> None:
        """The worker stops: it serves nobody any more."""
        with self._database.writing() as session:
            session.execute(delete(WorkerRow).where(WorkerRow.name == name))

    def workers(self) -> tuple[WorkerPresence, ...]:
        """Those that are alive, by name."""
        with self._database.reading() as session:
            return tuple(map(_presence, self._alive(session)))

    def served(self) -> ServedFleet:
        """How many are alive, and how many boards they have; one that several have counts once."""
        wanted = select(JobRow.board_class).where(JobRow.state == OPEN, JobRow.submitted).distinct()
        with self._database.reading() as session:
            alive = self._alive(session)
            boards = dict.fromkeys(session.scalars(wanted), 0)
        seen = {(one["board_class"], one["board"]) for row in alive for one in row.boards}
        for board_class, _ in seen:
            boards[board_class] = boards.get(board_class, 0) + 1
        return ServedFleet(len(alive), boards)

    def served_classes(self, session: Session) -> frozenset[str]:
        """The board classes of all workers that are alive, without those of which all boards are in
        quarantine."""
        quarantined = select(BoardRow.board_class, BoardRow.name).where(BoardRow.quarantine != "")
        left_out = {(row.board_class, row.name) for row in session.execute(quarantined)}
        return frozenset(
            board["board_class"]
            for row in self._alive(session)
            for board in row.boards
            if (board["board_class"], board["board"]) not in left_out
        )

    def _alive(self, session: Session) -> list[WorkerRow]:
        rows = session.scalars(select(WorkerRow).order_by(WorkerRow.name)).all()
        dead = set(self._observer.dead(rows))
        return [row for row in rows if Lease.of(row) not in dead]

    def clear_dead(self, session: Session) -> None:
        """Removes the rows of workers that are dead as far as this process knows."""
        rows = session.scalars(select(WorkerRow).order_by(WorkerRow.name)).all()
        for lease in self._observer.dead(rows):
            session.execute(
                delete(WorkerRow).where(WorkerRow.name == lease.id, WorkerRow.beat == lease.beat)
            )


def _presence(row: WorkerRow) -> WorkerPresence:
    return WorkerPresence(
        name=row.name,
        host=row.host,
        boards=tuple(ServedBoard(**board) for board in row.boards),
        activity=row.activity,
        compiler=row.compiler,
        started_at=row.started_at,
    )
