"""The main job: a model is split, its tasks are tuned under a budget, and the result is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tunebook.cache.errors import BudgetError
from tunebook.cache.records import Model
from tunebook.cache.store import Budget, Store, TaskState
from tunebook.cache.targets import Target
from tunebook.tuner.importing.frontend import read_model
from tunebook.tuner.importing.imported_model import ImportedModel
from tunebook.tuner.splitting.choices import Choices
from tunebook.tuner.splitting.prepare import prepare
from tunebook.tuner.splitting.split import split_model
from tunebook.tuner.trials.linking import linker_for
from tunebook.workers.boards.boards import BoardPlan, plan_boards
from tunebook.workers.commands.search_worker import RunSummary, SearchWorker
from tunebook.workers.recovery.unusable_schedules import withdraw_unusable
from tunebook.workers.rounds.progress import ProgressListener
from tunebook.workers.rounds.workbench import WorkerSettings

DEFAULT_TRIALS = 1000


@dataclass(frozen=True)
class BudgetRequest:
    """`trials` in total for this model, or `more` beyond what was spent; at most `seconds`.

    Where neither is given, a model keeps its budget, and a new one gets DEFAULT_TRIALS, or one
    for each task where that is more.
    """

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
class TuningPlan:
    """A model, split, with the boards and the budget to tune it: nothing has been stored yet."""

    model: Model
    target: Target
    boards: BoardPlan
    budget: BudgetRequest
    settings: WorkerSettings


@dataclass(frozen=True)
class TuneReport:
    """What a tuning run did, and where the model's tasks stand now."""

    model: Model
    run: RunSummary
    budget: Budget
    tasks: tuple[TaskState, ...]


def plan_tuning(
    path: Path,
    target: Target,
    *,
    shapes: Mapping[str, tuple[int, ...]],
    budget: BudgetRequest,
    board: BoardRequest,
    seed: int = 0,
    choices: Choices | None = None,
    trust_pickles: bool = False,
) -> TuningPlan:
    """Reads and splits the model file at `path`, and checks that all of it can be tuned.

    `trust_pickles` is for a local command line: reading a .pt2 file runs what it holds. Raises
    ModelError, UsageError, BudgetError (fewer trials than tasks) and BoardError.
    """
    plan = plan_on_boards(
        path,
        target,
        shapes=shapes,
        budget=budget,
        board=board,
        seed=seed,
        choose=lambda _: choices,
        trust_pickles=trust_pickles,
    )
    tasks = len(plan.model.tasks)
    if budget.trials is not None and budget.trials < tasks:
        raise BudgetError(
            f"--trials {budget.trials} is below one trial per task: this model has {tasks} tasks, "
            f"so give --trials {tasks} or more"
        )
    return plan


def plan_on_boards(
    path: Path,
    target: Target,
    *,
    shapes: Mapping[str, tuple[int, ...]],
    budget: BudgetRequest,
    board: BoardRequest,
    seed: int,
    choose: Callable[[ImportedModel], Choices | None],
    trust_pickles: bool,
) -> TuningPlan:
    """Finds the boards, then reads the model file and splits it with what `choose` says of it.

    Raises ModelError, UsageError and BoardError.
    """
    boards = plan_boards(target, board.boards, board.tracker)
    linker_for(str(target))
    imported = read_model(path, shapes, trust_pickles=trust_pickles)
    model = split_model(prepare(imported, target, choose(imported)))
    settings = WorkerSettings.for_this_machine(board_timeout=board.timeout, seed=seed)
    return TuningPlan(model, target, boards, budget, settings)


def tune(plan: TuningPlan, store: Store, listener: ProgressListener) -> TuneReport:
    """Tunes what was planned and stores every trial. Raises BoardError and DatabaseError."""
    job_id = submit_tuning(plan, store)
    withdraw_unusable(store, plan.model.keys, emulated=plan.boards.emulated)
    nothing_left = _nothing_left(store, job_id)
    if nothing_left is not None:
        run = RunSummary(0, 0.0, nothing_left)
    else:
        try:
            with plan.boards.open() as address:
                worker = SearchWorker(store, plan.target, address, plan.settings, listener)
                run = worker.run(job_id, plan.budget.seconds)
        finally:
            # Whoever comes next plans anew; a round that nobody runs would be in the way.
            store.withdraw_rounds(job_id)
    if run.ended in ("budget", "exhausted"):
        store.finish_job(job_id, "done", run.ended)
    return TuneReport(plan.model, run, store.budget(job_id), tuple(store.task_states(job_id)))


def submit_tuning(plan: TuningPlan, store: Store) -> int:
    """Stores the model and opens its job, or the one that was left open; gives the job's id.

    Raises BudgetError where `more` leaves fewer trials than tasks.
    """

    def submit(trials: int | None, more: int | None) -> int:
        boards = plan.boards
        return store.submit_job(
            model_id, boards.board_class, trials=trials, more=more, emulated=boards.emulated
        )

    tasks = len(plan.model.tasks)
    model_id = store.save_model(plan.model)
    job_id = submit(plan.budget.trials, None)
    budget = store.budget(job_id)
    if plan.budget.more is not None:
        if max(budget.limit, budget.spent + plan.budget.more) < tasks:
            raise BudgetError(
                f"--more {plan.budget.more} leaves this model fewer trials than its {tasks} tasks, "
                f"so give --more {tasks - budget.spent} or more"
            )
        return submit(None, plan.budget.more)
    if budget.limit == 0:
        return submit(max(DEFAULT_TRIALS, tasks), None)
    return job_id


def _nothing_left(store: Store, job_id: int) -> str | None:
    """Why a run would neither measure nor verify anything; None where it would."""
    budget = store.budget(job_id)
    tasks = store.task_states(job_id)
    if any(task.best_seconds != task.served_seconds for task in tasks):
        return None
    if budget.spent >= budget.limit:
        return "budget"
    return "exhausted" if all(task.exhausted for task in tasks) else None
