"""A fleet worker with several boards: real board servers on loopback, taken for others."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from worker_in_a_thread import worker_in_a_thread

from tunebook.cache.boards.registrations import RegisteredBoard
from tunebook.cache.model_files import ModelFiles
from tunebook.cache.queue.fleet import ServedBoard
from tunebook.cache.queue.submissions import BudgetLimits, JobRequest, JobState
from tunebook.cache.records import Measurement, Record
from tunebook.cache.store import BoardPeak, Store
from tunebook.tuner.llvm_targets import host_target
from tunebook.tuner.trials.measuring import Measurer
from tunebook.tuner.trials.trials import BoardAddress
from tunebook.workers.boards.board_classes import BoardClass
from tunebook.workers.boards.board_supervisor import BoardSupervisor
from tunebook.workers.boards.host_server import host_server
from tunebook.workers.boards.tracker import TrackerAddress, query_tracker, running_tracker
from tunebook.workers.fleet.fleet_worker import FleetSettings
from tunebook.workers.rounds.workbench import WorkerSettings

pytestmark = pytest.mark.slow

RACK = "rack"
BOARDS = 3
KILLED = f"{RACK}-1"
TRIALS = 21
BATCH = WorkerSettings().batch
ROUND = WorkerSettings().sizes.largest

Submit = Callable[..., int]


@pytest.fixture(scope="module")
def tracker() -> Iterator[TrackerAddress]:
    with ExitStack() as stack:
        address = stack.enter_context(running_tracker())
        for number in range(BOARDS):
            name = f"{RACK}-{number}"
            stack.enter_context(BoardSupervisor(host_server(1), address, RACK, name=name))
        yield address


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(str(tmp_path / "tunebook.db")) as opened:
        # Measuring what the boards can do at most takes longer than all else here.
        opened.save_board_peak(RACK, str(host_target()), BoardPeak(1e15, 1e15))
        yield opened


@pytest.fixture
def submit(store: Store, onnx_models: ModuleType, tmp_path: Path) -> Submit:
    """Submits a model of one task for the rack, another for each batch size."""

    def submit_model(batch: int = 1, trials: int = TRIALS) -> int:
        path = onnx_models.save(tmp_path / "a.onnx", onnx_models.scaled_convolution(batch=batch))
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        with ModelFiles(str(tmp_path / "models")).upload(digest) as upload:
            upload.write(content)
            upload.finish()
        request = JobRequest(digest, "", str(host_target()), RACK)
        return store.queue.submit(request, BudgetLimits(trials=trials)).job_id

    return submit_model


@contextmanager
def serving(store: Store, folder: Path, tracker: TrackerAddress) -> Iterator[None]:
    """A worker in this process, with all boards of the rack."""

    def look() -> list[ServedBoard]:
        return [
            ServedBoard(RACK, board.name or "", emulated=False, cores=1) for board in there(tracker)
        ]

    @contextmanager
    def way() -> Iterator[BoardAddress]:
        yield BoardAddress(tracker.host, tracker.port, RACK)

    boards = BoardClass(RACK, way, look, lambda _: None, on_this_machine=False)
    settings = FleetSettings(WorkerSettings.for_this_machine(board_timeout=30))
    with worker_in_a_thread(store, ModelFiles(str(folder / "models")), [boards], settings):
        yield


def there(tracker: TrackerAddress) -> tuple[RegisteredBoard, ...]:
    return query_tracker(tracker).boards_of(RACK)


def records_of(store: Store, job: int) -> list[Record]:
    return [record for task in store.task_states(job) for record in store.records(task.key)]


def test_all_boards_are_used_and_one_that_dies_costs_no_trial(
    store: Store,
    submit: Submit,
    tracker: TrackerAddress,
    tmp_path: Path,
    eventually: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A board server is killed while it has a trial: it is waited for until all have one."""
    measure = Measurer.measure
    used: set[str] = set()

    def kill_one() -> None:
        (pid,) = [board.pid for board in there(tracker) if board.name == KILLED]
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        killed.set()

    together = threading.Barrier(BOARDS, kill_one)
    killed = threading.Event()

    def with_others(self: Measurer, *arguments: Any, **best: Any) -> Measurement:
        # Only trials are told the best time so far.
        if best:
            used.add(self.hold_board().name)
            if not killed.is_set():
                together.wait(60)
        return measure(self, *arguments, **best)

    monkeypatch.setattr(Measurer, "measure", with_others)
    job = submit()
    with serving(store, tmp_path, tracker):
        eventually(lambda: store.queue.job(job).state is JobState.DONE, "the job is done", 120)
    budget = store.queue.job(job).budget
    records = records_of(store, job)
    assert killed.is_set()
    assert (budget.trials_spent, budget.trials_granted, len(records)) == (TRIALS, TRIALS, TRIALS)
    assert [record.measurement.error for record in records] == [None] * TRIALS
    assert used == {"rack-0", "rack-1", "rack-2"}
    # The killed one may be back too late for another trial.
    assert used - {KILLED} <= {record.measurement.board for record in records}
    assert all(task.served_seconds is not None for task in store.task_states(job))


def test_no_rounds_are_hoarded_while_boards_are_slow(
    store: Store,
    submit: Submit,
    tracker: TrackerAddress,
    tmp_path: Path,
    eventually: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Boards are made slow by holding their trials up; there are rounds enough for all loops."""
    go_on = threading.Event()
    measure = Measurer.measure
    held_up: set[str] = set()

    def slowly(self: Measurer, *arguments: Any, **best: Any) -> Measurement:
        if best:
            held_up.add(self.hold_board().name)
            go_on.wait()
        return measure(self, *arguments, **best)

    monkeypatch.setattr(Measurer, "measure", slowly)
    jobs = [submit(batch, trials=100) for batch in range(1, 7)]

    def granted() -> int:
        return sum(store.queue.job(job).budget.trials_granted for job in jobs)

    with serving(store, tmp_path, tracker):
        try:
            eventually(lambda: len(held_up) == BOARDS, "every board has a trial", 120)
            # So long that who claims too much would have done so.
            time.sleep(2)
            # A batch, one for each board, and the rest of the last round.
            assert granted() < BATCH + BOARDS + ROUND
        finally:
            go_on.set()
