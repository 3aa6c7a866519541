"""Idle workers are woken by the doorbell, and look for themselves where nobody can ring it."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType

import pytest
from redis_server import RedisServer

from tunebook.cache.live import doorbell
from tunebook.cache.live.doorbell import Bell
from tunebook.cache.live.live import Live
from tunebook.cache.model_files import ModelFiles
from tunebook.cache.queue.submissions import RECOVER, BudgetLimits, JobRequest
from tunebook.cache.store import Store
from tunebook.tuner.llvm_targets import host_target
from tunebook.workers.fleet.fleet_worker import FleetSettings, run_fleet_worker

pytestmark = pytest.mark.slow

Eventually = Callable[..., None]
# Longer than a test may take.
NEVER = 3600.0


class Process:
    """What a process has on the database and on Redis."""

    def __init__(self, database: str, redis: str, ends: ExitStack) -> None:
        self.store = ends.enter_context(Store.open(database))
        self.live = ends.enter_context(Live.open(redis, self.store.place()))
        self.store.follow(self.live.tell)


@pytest.fixture
def processes(
    tmp_path: Path, redis_server: RedisServer, eventually: Eventually
) -> Iterator[tuple[Process, Process]]:
    """A coordinator's and a worker's."""
    database = str(tmp_path / "tunebook.db")
    with ExitStack() as ends:
        found = tuple(Process(database, redis_server.url, ends) for _ in range(2))
        eventually(lambda: all(one.live.is_up for one in found), "Redis is there")
        yield found[0], found[1]


class WatchedBell(Bell):
    """A process's bell, which tells how often somebody began to wait for it."""

    def __init__(self, bell: Bell) -> None:
        super().__init__()
        self._bell = bell
        self.waits = 0

    @property
    def look_seconds(self) -> float:
        return self._bell.look_seconds

    def ring(self) -> None:
        self._bell.ring()

    def wait(self, seconds: float, stop: threading.Event) -> bool:
        self.waits += 1
        return self._bell.wait(seconds, stop)


@contextmanager
def working(worker: Process, models: ModelFiles) -> Iterator[WatchedBell]:
    """A worker without boards: it splits models, whoever's they are."""
    stop = threading.Event()
    bell = WatchedBell(worker.live.bell)
    thread = threading.Thread(
        target=run_fleet_worker,
        args=(worker.store, models, [], FleetSettings()),
        kwargs={"stop": stop, "bell": bell},
    )
    thread.start()
    try:
        yield bell
    finally:
        stop.set()
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.parametrize("redis_is", ["there", "away"])
def test_a_job_that_was_submitted_elsewhere_is_begun(
    processes: tuple[Process, Process],
    redis_server: RedisServer,
    onnx_models: ModuleType,
    tmp_path: Path,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
    redis_is: str,
) -> None:
    # While Redis is there nothing but a ring ends a wait.
    monkeypatch.setattr(doorbell, "SHARED_SECONDS", NEVER)
    coordinator, worker = processes
    models = ModelFiles(str(tmp_path / "models"))
    content = onnx_models.save(tmp_path / "a.onnx", onnx_models.scaled_convolution()).read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    with models.upload(digest) as upload:
        upload.write(content)
        upload.finish()
    with working(worker, models) as bell:
        # The first wait ends with what rang before.
        eventually(lambda: bell.waits >= 2, "it has found nothing, and waits")
        if redis_is == "away":
            redis_server.kill()
            eventually(lambda: not coordinator.live.is_up, "its end is noticed")
        request = JobRequest(digest, "", str(host_target()), "local")
        job = coordinator.store.queue.submit(request, BudgetLimits(trials=1)).job_id
        # Split, it waits for a board to be recovered on.
        eventually(lambda: stage_of(coordinator.store, job) == RECOVER, "it was split")


def stage_of(store: Store, job: int) -> object:
    stages = [event.data.get("stage") for event in store.queue.events(job)]
    return RECOVER if RECOVER in stages else stages[-1]
