"""`tunebook plan`: whether a night fits its budget, before it begins, and what more would bring."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError
from rich.table import Table

from tunebook.cache.errors import ExitCode, UsageError
from tunebook.service.commands.options import (
    AsJson,
    DatabaseUrl,
    Server,
    chosen_server,
    open_store_if_any,
)
from tunebook.service.output import print_json, print_table, print_text, show_seconds
from tunebook.service.plans.plan_documents import PlanDocument, PlanSubmission
from tunebook.service.plans.plan_file import read_plan
from tunebook.service.plans.plan_text import plan_lines
from tunebook.service.plans.planning import make_plan

# Less is not worth a line of its own.
_SMALLEST_SHARE = 0.001


def plan(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A nightly.toml, or a TOML file with numbers: models, targets, trials, "
            "seconds_per_trial and [budget].",
        ),
    ],
    trials: Annotated[
        int | None,
        typer.Option(
            "--trials", min=1, help="The trials that each model is to have on each target."
        ),
    ] = None,
    seconds_per_trial: Annotated[
        float | None,
        typer.Option("--seconds-per-trial", help="In place of what trials took so far."),
    ] = None,
    boards: Annotated[
        list[str] | None,
        typer.Option(
            "--boards",
            metavar="CLASS=N",
            help="How many boards of a class there will be, in place of those there now; "
            "repeatable.",
        ),
    ] = None,
    server: Server = None,
    db: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Say whether what is to be tuned fits its budget, what would, and what an hour more brings.

    Rates and what is known of the models come from the coordinator, or from the database. Exits
    with 8 where the plan does not fit.
    """
    now = datetime.now(timezone.utc)
    submission, left_open = read_plan(file, now)
    submission = _changed(submission, trials, seconds_per_trial, boards or [])
    found = _forecast(submission, server, db, now)
    found = found.model_copy(update={"assumptions": [*left_open, *found.assumptions]})
    if as_json:
        print_json(found)
    else:
        for line in plan_lines(found):
            print_text(line)
        _print_another_hour(found)
    if not found.fits:
        raise typer.Exit(ExitCode.BUDGET)


def _changed(
    submission: PlanSubmission,
    trials: int | None,
    seconds_per_trial: float | None,
    boards: list[str],
) -> PlanSubmission:
    """The plan with what the command line says otherwise. Raises UsageError."""
    given = {
        "trials_per_job": trials,
        "seconds_per_trial": seconds_per_trial,
        "boards": {**submission.boards, **dict(map(_boards, boards))} if boards else None,
    }
    update = {name: value for name, value in given.items() if value is not None}
    try:
        return PlanSubmission.model_validate({**submission.model_dump(), **update})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        option = "--" + str(first["loc"][0]).replace("_", "-")
        raise UsageError(f"{option}: {first['msg']}") from None


def _boards(text: str) -> tuple[str, int]:
    board_class, _, number = text.rpartition("=")
    if not board_class or not number.isdecimal():
        raise UsageError(f"--boards {text}: give a class and a number, such as rpi5=3")
    return board_class, int(number)


def _forecast(
    submission: PlanSubmission, server: str | None, db: str | None, now: datetime
) -> PlanDocument:
    asked = chosen_server(db, server)
    if asked is None:
        with open_store_if_any(db) as store:
            return make_plan(store, submission, now)
    # Only here: without a server nobody needs its client.
    from tunebook.cache.remote.client import Client

    with Client(asked) as client:
        answer = client.request("POST", "/plans", submission.model_dump(mode="json"))
    return PlanDocument.model_validate(answer)


def _print_another_hour(plan: PlanDocument) -> None:
    gains = sorted(plan.another_hour, key=lambda one: -one.share)
    shown = [one for one in gains if one.share >= _SMALLEST_SHARE]
    if not gains:
        return
    if not shown:
        print_text("Another hour is expected to bring nothing.")
        return
    table = Table(title="Another hour is expected to bring", title_justify="left")
    table.add_column("model", overflow="fold")
    table.add_column("target", overflow="fold")
    for name in ("trials", "latency", "then", "less"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in shown:
        table.add_row(
            f"{one.model} {one.shapes}".strip(),
            one.target,
            str(one.trials),
            show_seconds(one.latency),
            show_seconds(one.expected_latency),
            f"{100 * one.share:.1f} %",
        )
    print_table(table)
