"""`tunebook migrate`: makes a model's missing schedules from near ones, without a search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import BaseModel
from rich.table import Table

from tunebook.cache.errors import ExitCode
from tunebook.cache.misses import Miss, ScheduleMissError
from tunebook.cache.remote.miss_documents import MissDocument, miss_document
from tunebook.service.commands.completed_target import completed_target
from tunebook.service.commands.models import given_choices, mending_options
from tunebook.service.commands.options import (
    AsJson,
    Boards,
    BoardTimeout,
    CompletableTarget,
    DatabaseUrl,
    LayoutChoice,
    ModelPath,
    Shapes,
    Tracker,
    open_store,
)
from tunebook.service.commands.tune_view import ProgressView
from tunebook.service.durations import parse_duration, show_duration
from tunebook.service.mending import fill_in_all
from tunebook.service.output import (
    print_json,
    print_table,
    print_text,
    show_seconds,
)

if TYPE_CHECKING:
    from tunebook.workers.commands.migration import MigratedTask, MigrationReport

_MOST_TRIALS = 1000


class MigratedTaskDocument(BaseModel):
    """What became of a miss as machines read it; without `seconds` nothing is served for it."""

    key: str
    reason: str
    nearest: str | None
    trials: int
    seconds: float | None
    origin: str | None


class MigrateDocument(BaseModel):
    """A migration as machines read it."""

    trials: int
    seconds: float
    hits: int
    tasks: list[MigratedTaskDocument]
    misses: list[MissDocument]


def migrate(
    model: ModelPath,
    target: CompletableTarget = None,
    trials_per_task: Annotated[
        int | None,
        typer.Option(
            "--trials-per-task",
            min=1,
            max=_MOST_TRIALS,
            help="At most this many trials for each missing schedule (1 to 8, by its reason).",
        ),
    ] = None,
    shape: Shapes = None,
    layout: LayoutChoice = None,
    boards: Boards = None,
    tracker: Tracker = None,
    board_timeout: BoardTimeout = "60s",
    db: DatabaseUrl = None,
    as_json: AsJson = False,
) -> int:
    """Make missing schedules from those of near workloads, verified and measured on a board."""
    timeout = parse_duration(board_timeout)

    # Only here: neither `tunebook db` nor `tunebook --help` should wait for TVM.
    from tunebook.tuner.importing.shapes import parse_shape_options
    from tunebook.tuner.splitting.choices import Choices
    from tunebook.workers.boards.boards import target_for_boards
    from tunebook.workers.commands.migration import migrate as run_migration
    from tunebook.workers.commands.migration import plan_migration
    from tunebook.workers.commands.tuning import BoardRequest

    # Where no database is, there is nothing to migrate from: opened for reading it is not made.
    open_store(db, read_only=True).close()
    with open_store(db) as store, ProgressView(quiet=as_json) as view:
        plan = plan_migration(
            store,
            model,
            target_for_boards(completed_target(target, boards, db), boards, tracker),
            shapes=parse_shape_options(shape or []),
            board=BoardRequest(boards, tracker, timeout),
            choices=given_choices(layout),
            trust_pickles=True,
        )
        report = run_migration(plan, store, view.show, trials_per_task=trials_per_task)
    options = mending_options(
        model,
        shape,
        plan.target,
        db,
        Choices.parse(plan.model.choices),
        accept_emulated=plan.boards.emulated,
    )
    misses = fill_in_all(report.answer.misses, options)
    if as_json:
        print_json(migrate_document(report, misses))
        return ExitCode.MISS if misses else ExitCode.OK
    print_migrate_report(report)
    if misses:
        raise ScheduleMissError(misses)
    return ExitCode.OK


def migrate_document(report: MigrationReport, misses: Sequence[Miss]) -> MigrateDocument:
    """A migration as machines read it, with what is still missing."""
    return MigrateDocument(
        trials=report.trials,
        seconds=report.seconds,
        hits=len(report.answer.hits),
        tasks=[_task_document(task) for task in report.tasks],
        misses=[miss_document(miss) for miss in misses],
    )


def _task_document(task: MigratedTask) -> MigratedTaskDocument:
    served = task.served
    return MigratedTaskDocument(
        key=str(task.miss.key),
        reason=task.miss.reason.value,
        nearest=None if task.near is None else str(task.near.key),
        trials=task.trials,
        seconds=None if served is None else served.measurement.seconds,
        origin=None if served is None else served.candidate.origin or None,
    )


def print_migrate_report(report: MigrationReport) -> None:
    """The table of what was missing, and what the migration did."""
    if report.tasks:
        print_table(_table(report))
    print_migrate_summary(report)


def print_migrate_summary(report: MigrationReport) -> None:
    """What the migration did, and how many schedules the cache has now."""
    made = sum(task.served is not None for task in report.tasks)
    wanted = len(report.model.keys)
    if not report.tasks:
        print_text(f"Nothing was missing: {wanted} of {wanted} schedules are in the cache.")
        return
    trials = "1 trial" if report.trials == 1 else f"{report.trials} trials"
    print_text(
        f"{made} of {len(report.tasks)} missing schedules were made with {trials} in "
        f"{show_duration(report.seconds)}; {len(report.answer.hits)} of {wanted} are in the cache."
    )


def _table(report: MigrationReport) -> Table:
    table = Table(title=f"{report.model.target}  {report.model.compiler}", title_justify="left")
    table.add_column("key (op | buffers | hash)", overflow="fold")
    table.add_column("missed", no_wrap=True)
    for name in ("trials", "time"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("made from", overflow="fold")
    for task in report.tasks:
        key, served = task.miss.key, task.served
        table.add_row(
            f"{key.op} | {key.buffers} | {key.workload_hash}",
            task.miss.reason.value,
            str(task.trials),
            show_seconds(None if served is None else served.measurement.seconds),
            "-" if served is None else served.candidate.origin or served.candidate.source.value,
        )
    return table
