"""Recovery without search: a model's missing schedules made from traces of near workloads."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.lookup.near_schedules import NearSchedules
from tunebook.cache.misses import LookupAnswer, Miss
from tunebook.cache.records import Model, Record
from tunebook.cache.store import Store
from tunebook.cache.targets import Target
from tunebook.tuner.splitting.choices import Choices
from tunebook.tuner.splitting.stored_choices import stored_choices
from tunebook.workers.commands.migration_worker import MigrationWorker
from tunebook.workers.commands.tuning import BoardRequest, BudgetRequest, TuningPlan, plan_on_boards
from tunebook.workers.recovery.recipes import Recipe, near_misses, recipes_from
from tunebook.workers.recovery.unusable_schedules import withdraw_unusable
from tunebook.workers.rounds.progress import ProgressListener


@dataclass(frozen=True)
class MigratedTask:
    """What became of one miss: `trials` measured, and the record that is served now, if any.

    `near` is the nearest workload whose traces were tried, None where there was none.
    """

    miss: Miss
    near: NearSchedules | None
    trials: int
    served: Record | None


@dataclass(frozen=True)
class MigrationReport:
    """What a migration did in `seconds`; `answer` is what a build would get now."""

    model: Model
    tasks: tuple[MigratedTask, ...]
    trials: int
    seconds: float
    answer: LookupAnswer


def plan_migration(
    store: Store,
    path: Path,
    target: Target,
    *,
    shapes: Mapping[str, tuple[int, ...]],
    board: BoardRequest,
    choices: Choices | None = None,
    trust_pickles: bool = False,
) -> TuningPlan:
    """Reads and splits the model file at `path` as a build of it would, with the choices that it
    was tuned with unless others are given.

    `trust_pickles` is for a local command line: reading a .pt2 file runs what it holds. Raises
    ModelError, UsageError and BoardError.
    """
    return plan_on_boards(
        path,
        target,
        shapes=shapes,
        budget=BudgetRequest(),
        board=board,
        seed=0,
        choose=lambda imported: choices or stored_choices(store, imported, target),
        trust_pickles=trust_pickles,
    )


def migrate(
    plan: TuningPlan,
    store: Store,
    listener: ProgressListener,
    *,
    trials_per_task: int | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> MigrationReport:
    """Adapts near traces for every schedule that the model misses, verifies and measures them.

    At most `trials_per_task` of each (None: what recovery_trials.py says for each reason). The
    trials are charged to the model's budget, which is raised for them and not for more. Raises
    BoardError and DatabaseError.
    """
    started = monotonic()
    model_id = store.save_model(plan.model)
    emulated = plan.boards.emulated
    withdraw_unusable(store, plan.model.keys, emulated=emulated)
    misses = _lookup(plan, store).misses
    near = near_misses(store, misses, emulated=emulated, seed=plan.settings.seed)
    recipes = recipes_from(store, near, emulated=emulated, trials_per_task=trials_per_task)
    trials = _run(plan, store, model_id, recipes, listener) if recipes else {}
    answer = _lookup(plan, store)
    tasks = tuple(
        MigratedTask(
            miss=miss,
            near=next(iter(near[miss.key]), None),
            trials=trials.get(miss.key, 0),
            served=_served(store, answer, miss.key),
        )
        for miss in misses
    )
    return MigrationReport(plan.model, tasks, sum(trials.values()), monotonic() - started, answer)


def _lookup(plan: TuningPlan, store: Store) -> LookupAnswer:
    return store.lookup(
        plan.model.keys, accept_emulated=plan.boards.emulated, hints=plan.model.hints
    )


def _run(
    plan: TuningPlan,
    store: Store,
    model_id: int,
    recipes: Sequence[Recipe],
    listener: ProgressListener,
) -> Mapping[ScheduleKey, int]:
    def submit(more: int) -> int:
        boards = plan.boards
        return store.submit_job(
            model_id, boards.board_class, trials=None, more=more, emulated=boards.emulated
        )

    before = store.budget(submit(0))
    wanted = sum(recipe.trials.most for recipe in recipes if recipe.near)
    # What other rounds were granted and have not spent is theirs.
    job_id = submit(wanted + before.granted - before.spent)
    raised = store.budget(job_id).limit - before.limit
    try:
        with plan.boards.open() as address:
            worker = MigrationWorker(store, plan.target, address, plan.settings, listener)
            trials = worker.run(job_id, recipes)
    finally:
        store.withdraw_rounds(job_id)
        # What was raised and not spent is not for a later search to spend.
        spent = store.budget(job_id).spent - before.spent
        store.lower_budget(job_id, max(0, raised - spent))
    budget = store.budget(job_id)
    if budget.spent >= budget.limit:
        store.finish_job(job_id, "done", "migrated")
    return trials


def _served(store: Store, answer: LookupAnswer, key: ScheduleKey) -> Record | None:
    schedule = answer.hits.get(key)
    return None if schedule is None else store.record(schedule.record_id)
