"""A fleet worker in this process, with this machine as its board: what it does when things fail."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from worker_in_a_thread import worker_in_a_thread

from tunebook.cache.model_files import ModelFiles
from tunebook.cache.queue.fleet import ServedBoard
from tunebook.cache.queue.submissions import BudgetLimits, JobRequest, JobState
from tunebook.cache.store import BoardPeak, Store, TaskState
from tunebook.tuner.llvm_targets import host_target
from tunebook.workers.boards.board_classes import BoardClass, board_classes
from tunebook.workers.boards.local_board import local_board
from tunebook.workers.fleet.fleet_worker import FleetSettings
from tunebook.workers.rounds.proposals import SearchProposer
from tunebook.workers.rounds.workbench import WorkerSettings

pytestmark = pytest.mark.slow

ELSEWHERE = "llvm -mtriple=armv7l-linux-gnueabihf -mcpu=cortex-a7 -num-cores=4"
ENDED = (JobState.DONE, JobState.FAILED, JobState.CANCELLED)

Submit = Callable[..., int]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(str(tmp_path / "tunebook.db")) as opened:
        # Measuring what the board can do at most takes longer than all else here.
        opened.save_board_peak("local", str(host_target()), BoardPeak(1e15, 1e15))
        yield opened


@pytest.fixture
def models(tmp_path: Path) -> ModelFiles:
    return ModelFiles(str(tmp_path / "models"))


@pytest.fixture
def submit(store: Store, models: ModelFiles, onnx_models: ModuleType, tmp_path: Path) -> Submit:
    """Submits a model of one task, another for each batch size."""

    def submit_model(batch: int, budget: BudgetLimits | int, target: str | None = None) -> int:
        path = onnx_models.save(tmp_path / "a.onnx", onnx_models.scaled_convolution(batch=batch))
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        with models.upload(digest) as upload:
            upload.write(content)
            upload.finish()
        request = JobRequest(digest, "", target or str(host_target()), "local")
        return store.queue.submit(request, budget).job_id

    return submit_model


@contextmanager
def serving(store: Store, models: ModelFiles, board_class: BoardClass) -> Iterator[None]:
    settings = FleetSettings(WorkerSettings.for_this_machine(board_timeout=30))
    with worker_in_a_thread(store, models, [board_class], settings):
        yield


def test_a_job_that_brings_the_search_down_fails_and_leaves_the_others_alone(
    store: Store,
    models: ModelFiles,
    submit: Submit,
    eventually: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fault is faked: no program is known of which TVM raises where nobody expects it. Both
    jobs share a budget, so that their rounds are first run together."""
    propose = SearchProposer.propose
    night, _ = store.queue.create_budget("night", BudgetLimits(trials=6))
    broken, sound = submit(1, night), submit(2, night)
    only = submit(3, BudgetLimits(trials=1), ELSEWHERE)

    def raise_for_one(self: SearchProposer, task: TaskState, count: int) -> Any:
        if task.id in [one.id for one in store.task_states(broken)]:
            raise RuntimeError("InternalError: no such block")
        return propose(self, task, count)

    monkeypatch.setattr(SearchProposer, "propose", raise_for_one)
    (here,) = board_classes(["local"], None)
    with serving(store, models, here):
        eventually(lambda: all(job.state in ENDED for job in store.queue.jobs()), "all ended", 300)
    job = store.queue.job(broken)
    assert job.state is JobState.FAILED
    assert "InternalError: no such block" in job.reason
    assert "Traceback" in job.log
    assert store.queue.job(sound).state is JobState.DONE
    assert store.queue.job(sound).budget.trials_granted == 6
    impossible = store.queue.job(only)
    assert impossible.state is JobState.FAILED
    assert "armv7l" in impossible.reason


def test_trials_are_exact_where_two_loops_work_on_boards_elsewhere(
    store: Store, models: ModelFiles, submit: Submit, eventually: Callable[..., None]
) -> None:
    """No other machine is there: this one's board is taken for another's."""
    elsewhere = BoardClass(
        "local",
        lambda: local_board(1),
        lambda: [ServedBoard("local", "bench-3", emulated=False, cores=1)],
        lambda _: None,
        on_this_machine=False,
    )
    night, _ = store.queue.create_budget("night", BudgetLimits(trials=7))
    jobs = [submit(batch, night) for batch in (1, 2)]
    with serving(store, models, elsewhere):
        eventually(lambda: all(job.state in ENDED for job in store.queue.jobs()), "all ended", 300)
    budget = store.queue.budget(night)
    assert (budget.trials_spent, budget.trials_granted) == (7, 7)
    tasks = [task for job_id in jobs for task in store.task_states(job_id)]
    assert sum(task.trials for task in tasks) == 7
    assert all(task.served_seconds is not None for task in tasks)
