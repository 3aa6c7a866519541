"""When the lease of a round, of a job's stage, or of a worker's presence is dead.

A lease dies when its `beat` has not moved for `lease_seconds` on the observer's own monotonic
clock, so a stepped wall clock costs nothing; or at once when its holder was a process of this
same boot of this machine that no longer exists, so that a killed run resumes immediately.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import update
from sqlalchemy.orm import Session

from tunebook.cache.storage.announcements import announce_work
from tunebook.cache.storage.tables import JobRow, RoundRow, WorkerRow

Leased = RoundRow | JobRow | WorkerRow
# What is claimed, and let go of.
Claimable = RoundRow | JobRow


@dataclass(frozen=True)
class Holder:
    """A process: where its id means something (boot and pid namespace), its id, its start time.

    `place` is empty where the system does not tell; such a holder is judged by its beat alone.
    """

    place: str
    pid: int
    started: str

    @classmethod
    def this_process(cls) -> Holder:
        pid = os.getpid()
        return cls(_place(), pid, _start_time(pid) or "")

    @classmethod
    def parse(cls, text: str) -> Holder | None:
        parts = text.split(" ")
        if len(parts) != 3 or not parts[1].isdigit():
            return None
        return cls(parts[0], int(parts[1]), parts[2])

    def __str__(self) -> str:
        return f"{self.place} {self.pid} {self.started}"

    def is_known_dead(self) -> bool:
        """Whether this process is sure that the holder does not run any more."""
        return bool(self.place) and self.place == _place() and _start_time(self.pid) != self.started


@dataclass(frozen=True)
class Lease:
    """A lease as it stood when it was read: any sign of life changes it. `id` is the round's or the
    job's, or the worker's name."""

    id: int | str
    epoch: int
    beat: int

    @classmethod
    def of(cls, row: Leased) -> Lease:
        if isinstance(row, WorkerRow):
            return cls(row.name, 0, row.beat)
        return cls(row.id, row.epoch, row.beat)


class LeaseObserver:
    """Remembers when each lease's beat last moved, as seen from this process.

    It forgets what it is not shown: rounds, jobs and workers each need an observer of their own.
    """

    def __init__(self, lease_seconds: float, monotonic: Callable[[], float]) -> None:
        self._lease_seconds = lease_seconds
        self._monotonic = monotonic
        self._since: dict[Lease, float] = {}

    def another(self) -> LeaseObserver:
        """One for leases of another kind, with the same clock."""
        return LeaseObserver(self._lease_seconds, self._monotonic)

    def dead(self, claimed: Iterable[Leased]) -> list[Lease]:
        """Those leases that are dead, in the order given; `claimed` is all there are."""
        now = self._monotonic()
        since: dict[Lease, float] = {}
        dead: list[Lease] = []
        for row in claimed:
            lease = Lease.of(row)
            since[lease] = self._since.get(lease, now)
            if now - since[lease] > self._lease_seconds or _holder_is_gone(row):
                dead.append(lease)
        self._since = since
        return dead


def claim(row: Claimable, worker: str) -> None:
    """Makes a row that is locked and free this process's, as this worker."""
    row.epoch += 1
    row.beat += 1
    row.worker = worker
    row.holder = str(Holder.this_process())


def freed(kind: type[Claimable]) -> dict[str, Any]:
    """The values of a row that nobody has any more: whoever had it learns so with the next
    write."""
    return {"worker": None, "holder": None, "epoch": kind.epoch + 1}


def expire(session: Session, kind: type[Claimable], dead: Iterable[Lease], **more: Any) -> None:
    """Frees the rows with these leases but for those that gave a sign of life meanwhile."""
    for lease in dead:
        session.execute(
            update(kind)
            .where(kind.id == lease.id, kind.epoch == lease.epoch, kind.beat == lease.beat)
            .values(**freed(kind), **more)
        )
        announce_work(session)


def _holder_is_gone(row: Leased) -> bool:
    holder = Holder.parse(row.holder or "")
    return holder is not None and holder.is_known_dead()


def _place() -> str:
    """Two containers of one machine share the boot but not their process ids."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _start_time(pid: int) -> str | None:
    """The start of a process in clock ticks since boot; None when there is no such process, or
    it is dead and only waits to be reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else fields[19]
