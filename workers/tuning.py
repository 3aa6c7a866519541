"""The main job: a model is split, its tasks are tuned under a budget, and the result is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tunebook.cache.errors import BudgetError
from tunebook.cache.records import Model
from tunebook.cache.store import Budget, Store, TaskState
from tunebook.cache.targets import Target
from tunebook.tuner.frontend import read_model
from tunebook.tuner.prepare import prepare
from tunebook.tuner.split import split_model
from tunebook.workers.boards import boards_for
from tunebook.workers.emulated_board import EMULATED_CLASS
from tunebook.workers.local_board import LOCAL_BOARD_CLASS
from tunebook.workers.progress import ProgressListener
from tunebook.workers.search_worker import RunSummary, SearchWorker, WorkerSettings


@dataclass(frozen=True)
class BudgetRequest:
    """`trials` in total for this model, or `more` beyond what was spent; at most `seconds`."""

    trials: int | None = None
    more: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class BoardRequest:
    """Boards of class `boards` at `tracker` (HOST:PORT); None for this machine.

    `timeout`: seconds to wait for a board.
    """

    boards: str | None = None
    tracker: str | None = None
    timeout: float = 60.0


@dataclass(frozen=True)
class TuneReport:
    """What a tuning run did, and where the model's tasks stand now."""

    model: Model
    run: RunSummary
    budget: Budget
    tasks: tuple[TaskState, ...]


def tune(
    path: Path,
    target: Target,
    store: Store,
    *,
    shapes: Mapping[str, tuple[int, ...]],
    budget: BudgetRequest,
    board: BoardRequest,
    listener: ProgressListener,
    seed: int = 0,
) -> TuneReport:
    """Tunes the model file at `path` for `target` and stores every trial.

    Raises ModelError, BudgetError (fewer trials than tasks), BoardError and DatabaseError.
    """
    model = split_model(prepare(read_model(path, shapes, trust_pickles=True), target))
    _check_budget(model, budget)
    model_id = store.save_model(model)
    settings = WorkerSettings.for_this_machine(board_timeout=board.timeout, seed=seed)
    job_id = store.submit_job(
        model_id,
        board.boards or LOCAL_BOARD_CLASS,
        trials=budget.trials,
        more=budget.more,
        emulated=board.boards == EMULATED_CLASS and board.tracker is None,
    )
    if _nothing_left(store, job_id):
        run = RunSummary(0, 0.0, "budget")
    else:
        with boards_for(target, board.boards, board.tracker) as address:
            worker = SearchWorker(store, target, address, settings, listener)
            run = worker.run(job_id, budget.seconds)
    if run.ended in ("budget", "exhausted"):
        store.finish_job(job_id, "done", run.ended)
    return TuneReport(model, run, store.budget(job_id), tuple(store.task_states(job_id)))


def _check_budget(model: Model, budget: BudgetRequest) -> None:
    tasks = len(model.tasks)
    if budget.trials is not None and budget.trials < tasks:
        raise BudgetError(
            f"--trials {budget.trials} is below one trial per task: this model has {tasks} tasks, "
            f"so give --trials {tasks} or more"
        )


def _nothing_left(store: Store, job_id: int) -> bool:
    """Whether a run would neither measure nor verify anything."""
    budget = store.budget(job_id)
    tasks = store.task_states(job_id)
    spent = budget.spent >= budget.limit or all(task.exhausted for task in tasks)
    return spent and all(task.best_seconds == task.served_seconds for task in tasks)
