"""The coordinator's own workers: real processes, which are killed and come again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tunebook.cache.store import Store
from tunebook.service.api.processes.embedded_worker import EmbeddedWorkers, RestartPauses

pytestmark = pytest.mark.slow

Eventually = Callable[..., None]
AT_ONCE = RestartPauses(first=0.1, longest=0.1)
NEVER = RestartPauses(first=3600, longest=3600)


def serves_local(store: Store) -> bool:
    boards = (board for worker in store.fleet.workers() for board in worker.boards)
    return any(board.board_class == "local" for board in boards)


def test_a_worker_that_dies_is_started_again_and_leaves_with_the_coordinator(
    store: Store,
    database: str,
    tmp_path: Path,
    eventually: Eventually,
    is_gone: Callable[[int], bool],
) -> None:
    workers = EmbeddedWorkers(
        1, db=database, models=str(tmp_path), boards=["local"], pauses=AT_ONCE
    )
    assert workers.fault() is not None
    workers.start()
    try:
        eventually(lambda: serves_local(store), "it serves this machine")
        (first,) = workers.process_ids
        eventually(lambda: workers.fault() is None, "it is said to work")
        os.kill(first, signal.SIGKILL)
        eventually(lambda: workers.process_ids not in ((), (first,)), "another was started")
        eventually(lambda: serves_local(store), "it serves this machine again")
        (second,) = workers.process_ids
    finally:
        workers.stop()
    workers.stop()
    assert is_gone(second)
    assert store.fleet.workers() == ()


def test_a_worker_that_cannot_work_is_a_fault_with_its_exit_code(
    database: str, tmp_path: Path, eventually: Eventually
) -> None:
    workers = EmbeddedWorkers(
        1, db=database, models=str(tmp_path), boards=["boards without tracker"], pauses=NEVER
    )
    workers.start()
    try:
        eventually(lambda: "exit code 2" in (workers.fault() or ""), "its end is told")
    finally:
        workers.stop()


def test_a_worker_leaves_when_the_coordinator_is_killed(
    store: Store, database: str, tmp_path: Path, eventually: Eventually
) -> None:
    program = f"""
        import time
        from tunebook.service.api.processes.embedded_worker import EmbeddedWorkers
        EmbeddedWorkers(1, db={database!r}, models={str(tmp_path)!r}, boards=["local"]).start()
        time.sleep(600)
    """
    coordinator = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)])
    try:
        eventually(lambda: serves_local(store), "it serves this machine")
        (worker,) = psutil.Process(coordinator.pid).children()
    finally:
        coordinator.kill()
        coordinator.wait()
    eventually(lambda: not worker.is_running(), "it left")
    assert store.fleet.workers() == ()
