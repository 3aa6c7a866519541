"""`tunebook tune`: tunes a model's tasks under a budget and shows what it won."""

from __future__ import annotations

from typing import Annotated

import typer

from tunebook.cache.errors import UsageError
from tunebook.service.commands.completed_target import completed_target
from tunebook.service.commands.models import given_choices
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
from tunebook.service.commands.tune_view import ProgressView, print_tune_report, tune_document
from tunebook.service.durations import parse_duration
from tunebook.service.output import print_json

# More than any board measures in its life, and what every database can count.
_MOST_TRIALS = 10**9


def tune(
    model: ModelPath,
    target: CompletableTarget = None,
    trials: Annotated[
        int | None,
        typer.Option(
            "--trials",
            min=1,
            max=_MOST_TRIALS,
            help="The total of trials for this model, shapes, target and compiler "
            "(1000 for a new one). Running again adds nothing to it.",
        ),
    ] = None,
    more: Annotated[
        int | None,
        typer.Option(
            "--more",
            min=1,
            max=_MOST_TRIALS,
            help="This many trials beyond what the model has had.",
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option("--time", help="Stop after this long, by less than a round: 90s, 10m, 2h."),
    ] = None,
    shape: Shapes = None,
    layout: LayoutChoice = None,
    boards: Boards = None,
    tracker: Tracker = None,
    board_timeout: BoardTimeout = "60s",
    seed: Annotated[int, typer.Option("--seed", help="Makes the search repeatable.")] = 0,
    db: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Tune a model's tasks on boards, and store every trial."""
    if trials is not None and more is not None:
        raise UsageError("--trials is a total and --more adds to it: give one of them")
    seconds = None if time is None else parse_duration(time)
    timeout = parse_duration(board_timeout)

    # Only here: neither `tunebook db` nor `tunebook --help` should wait for TVM.
    from tunebook.tuner.importing.shapes import parse_shape_options
    from tunebook.workers.boards.boards import target_for_boards
    from tunebook.workers.commands.tuning import BoardRequest, BudgetRequest, plan_tuning
    from tunebook.workers.commands.tuning import tune as run_tuning

    plan = plan_tuning(
        model,
        target_for_boards(completed_target(target, boards, db), boards, tracker),
        shapes=parse_shape_options(shape or []),
        budget=BudgetRequest(trials, more, seconds),
        board=BoardRequest(boards, tracker, timeout),
        seed=seed,
        choices=given_choices(layout),
        trust_pickles=True,
    )
    with open_store(db) as store, ProgressView(quiet=as_json) as view:
        report = run_tuning(plan, store, view.show)
    if as_json:
        print_json(tune_document(report))
    else:
        print_tune_report(report)
