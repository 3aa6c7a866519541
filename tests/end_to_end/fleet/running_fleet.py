"""A whole fleet: PostgreSQL, Redis, a tracker, two emulated boards, two replicas of the
coordinator, two workers, and clients that look up all the time; all real processes of this
machine."""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from asking_clients import PATIENCE, AskedCounts, AskingClient
from fleet_database import FleetDatabase
from fleet_parts import Part, end_tree
from local_ports import free_port
from postgresql_server import PostgresqlServer, running_postgresql
from redis_server import RedisServer, running_redis

from tunebook.cache.access.tokens import Role
from tunebook.cache.boards.registrations import RegisteredBoard
from tunebook.cache.errors import BoardError, TunebookError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.remote.client import Client
from tunebook.cache.remote.retries import Retries
from tunebook.cache.store import Store
from tunebook.workers.boards.tracker import BoardQueue, TrackerAddress, query_tracker

BOARD_CLASS = "emulated-aarch64"
BOARDS = ("board-1", "board-2")
WORKERS = ("worker-1", "worker-2")
REPLICAS = ("coordinator-1", "coordinator-2")
TARGET = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=1"
_LOOK_SECONDS = 0.05

Found = TypeVar("Found")


@dataclass
class Fleet:
    """A fleet that runs; `parts` by name, in the order in which they were started."""

    folder: Path
    postgresql: PostgresqlServer
    redis: RedisServer
    database: FleetDatabase
    store: Store
    tracker: TrackerAddress
    replicas: tuple[str, ...]
    token: str
    parts: dict[str, Part]
    clients: list[AskingClient] = field(default_factory=list)

    @property
    def client(self) -> Client:
        """A client of all replicas."""
        return Client(",".join(self.replicas), self.token, retries=Retries(patience=PATIENCE))

    # --- jobs ----------------------------------------------------------------------------------

    def submit(self, model: Path, trials: int, name: str) -> int:
        digest = hashlib.sha256(model.read_bytes()).hexdigest()
        body = {
            "model": digest,
            "target": TARGET,
            "board_class": BOARD_CLASS,
            "budget": {"trials": trials},
            "name": name,
        }
        with self.client as client:
            client.upload_model(digest, model)
            return int(client.request("POST", "/jobs", body, uuid.uuid4().hex)["id"])

    def job(self, number: int) -> dict[str, Any]:
        with self.client as client:
            return dict(client.request("GET", f"/jobs/{number}"))

    def ended(self, number: int) -> dict[str, Any]:
        """The job once it has ended."""

        def look() -> dict[str, Any] | None:
            job = self.job(number)
            return job if job["state"] in ("done", "failed", "cancelled") else None

        return self.until(look, f"job {number} ended", look=0.25)

    # --- boards --------------------------------------------------------------------------------

    def boards(self) -> tuple[RegisteredBoard, ...]:
        """Those at the tracker; none while it does not answer."""
        try:
            return query_tracker(self.tracker).boards_of(BOARD_CLASS)
        except BoardError:
            return ()

    def serving_boards(self) -> list[RegisteredBoard]:
        return [board for board in self.boards() if board.serving]

    def all_boards_are_free(self) -> bool:
        """Whether the tracker offers every board, and nobody waits for one."""
        try:
            summary = query_tracker(self.tracker)
        except BoardError:
            return False
        there = {board.name for board in summary.boards_of(BOARD_CLASS) if not board.serving}
        queue = summary.queues.get(BOARD_CLASS)
        return there == set(BOARDS) and queue == BoardQueue(free=len(BOARDS), waiting=0)

    # --- look-ups ------------------------------------------------------------------------------

    def ask_for(self, keys: Sequence[ScheduleKey]) -> None:
        """Has a client for each replica look these up from now on."""
        self.clients = [AskingClient(url, self.token, keys) for url in self.replicas]
        for client in self.clients:
            client.start()

    def asked(self) -> AskedCounts:
        """What all clients have counted so far."""
        return sum((client.counts for client in self.clients), AskedCounts())

    def faults_of_look_ups(self) -> list[str]:
        return [fault for client in self.clients for fault in client.faults]

    def all_are_answered(self) -> None:
        """Returns once each client has had another answer from its replica."""
        before = [client.counts.answered for client in self.clients]
        self.until(
            lambda: all(
                client.counts.answered > answered
                for client, answered in zip(self.clients, before, strict=True)
            ),
            "each replica answers",
        )

    # --- faults --------------------------------------------------------------------------------

    def kill_postgresql(self) -> None:
        """`kill -9` of the server and of all its processes."""
        end_tree(self.postgresql.pid)
        self.postgresql.kill()

    def mend(self) -> None:
        """Starts what does not run: a test that failed half-way is not to fail the others."""
        for part in self.parts.values():
            if part.is_running:
                part.resume()
            else:
                part.start()

    def until(
        self,
        holds: Callable[[], Found | None],
        what: str,
        *,
        look: float = _LOOK_SECONDS,
        seconds: float = PATIENCE,
    ) -> Found:
        """What `holds` gives once it gives something; its failure means never, not slow."""
        deadline = time.monotonic() + seconds
        while not (found := holds()):
            assert time.monotonic() < deadline, f"never came true: {what}"
            time.sleep(look)
        return found


@contextmanager
def running_fleet(folder: Path, command: Sequence[str]) -> Iterator[Fleet]:
    """A fleet that serves, until it is left."""
    with ExitStack() as ends:
        postgresql = ends.enter_context(running_postgresql())
        redis = ends.enter_context(running_redis())
        url = ends.enter_context(postgresql.database())
        store = ends.enter_context(Store.open(url))
        database = FleetDatabase(url)
        ends.callback(database.close)
        ports = _free_ports(1 + len(REPLICAS))
        tracker = TrackerAddress("127.0.0.1", ports[0])
        fleet = Fleet(
            folder=folder,
            postgresql=postgresql,
            redis=redis,
            database=database,
            store=store,
            tracker=tracker,
            replicas=tuple(f"http://127.0.0.1:{port}" for port in ports[1:]),
            token=store.tokens.create("fleet", Role.SUBMIT).secret,
            parts={},
        )
        environment = {
            **os.environ,
            "TUNEBOOK_DATABASE_URL": url,
            "TUNEBOOK_REDIS_URL": redis.url,
            # The coordinators leave tokens there.
            "XDG_DATA_HOME": str(folder / "data"),
        }
        for name, words in _commands(folder, tracker, ports[1:], fleet.replicas).items():
            own = {"TUNEBOOK_TOKEN": _board_token(store, name)} if name in BOARDS else {}
            log = folder / f"{name}.log"
            fleet.parts[name] = Part(name, [*command, *words], {**environment, **own}, log)
        ends.callback(_end, fleet)
        for part in fleet.parts.values():
            part.start()
        _wait_until_ready(fleet)
        yield fleet


def _board_token(store: Store, name: str) -> str:
    return store.tokens.create(name, Role.BOARD, f"{BOARD_CLASS}/{name}").secret


def _commands(
    folder: Path, tracker: TrackerAddress, ports: Sequence[int], replicas: Sequence[str]
) -> dict[str, list[str]]:
    """What each part is started with."""
    models = ["--models", str(folder / "models")]
    boards = ["--class", BOARD_CLASS, "--emulated", "--tracker", str(tracker)]
    return {
        "tracker": ["tracker", "--host", tracker.host, "--port", str(tracker.port)],
        **{
            name: ["serve", "--workers", "0", "--port", str(port), *models]
            for name, port in zip(REPLICAS, ports, strict=True)
        },
        **{
            name: ["board", *boards, "--name", name, "--coordinator", ",".join(replicas)]
            for name in BOARDS
        },
        **{
            name: ["worker", "--name", name, "--boards", f"{BOARD_CLASS}@{tracker}", *models]
            for name in WORKERS
        },
    }


def _wait_until_ready(fleet: Fleet) -> None:
    def serves() -> bool:
        with suppress(TunebookError):
            return {one.name for one in fleet.store.fleet.workers()} == set(WORKERS)
        return False

    fleet.until(serves, "the workers are there")
    fleet.until(fleet.all_boards_are_free, "the boards are there")
    for url in fleet.replicas:
        with Client(url, fleet.token, retries=Retries(patience=PATIENCE)) as client:
            client.request("GET", "/jobs")


def _end(fleet: Fleet) -> None:
    for client in fleet.clients:
        client.stop()
    # Workers first: they give back what they hold.
    for part in reversed(fleet.parts.values()):
        if part.is_running:
            part.resume()
            part.stop()


def _free_ports(count: int) -> list[int]:
    """Ports that stay free while what has them is started again."""
    found: set[int] = set()
    while len(found) < count:
        found.add(free_port())
    return list(found)
