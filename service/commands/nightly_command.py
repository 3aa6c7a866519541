"""`tunebook nightly`: tunes what a file names through the night, and says what came of it."""

from __future__ import annotations

import os
import time
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from tunebook.cache.errors import UsageError
from tunebook.service.commands.night_view import NightProgressView
from tunebook.service.commands.options import SERVER_VARIABLE, AsJson
from tunebook.service.commands.serve_command import DEFAULT_PORT
from tunebook.service.nights.coordinator import PIPELINE, Coordinator, Patience
from tunebook.service.nights.night import Clock, Night, night_name
from tunebook.service.nights.night_file import NightFile, read_night
from tunebook.service.nights.standings import StandingsFile, default_folder
from tunebook.service.nights.summary import NightSummary, exit_code
from tunebook.service.nights.summary_markdown import show_summary
from tunebook.service.output import print_json, print_text
from tunebook.service.whole_files import write_whole

_HERE = f"http://127.0.0.1:{DEFAULT_PORT}"


def nightly(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The nightly.toml: models, targets, one budget.")
    ],
    night: Annotated[
        str | None,
        typer.Option(
            "--night",
            metavar="NAME",
            help="The night to begin or to go on with. Default: the file's name with its next "
            "deadline, or else with the day.",
        ),
    ] = None,
    summary: Annotated[
        list[Path] | None,
        typer.Option(
            "--summary",
            metavar="FILE",
            help="Write the summary there: as JSON to FILE.json, and else as Markdown; repeatable.",
        ),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            metavar="URL",
            envvar=SERVER_VARIABLE,
            help=f"The coordinator. Default: the one of this machine, {_HERE}.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Tune models for targets on one budget at a coordinator, wait, and say what came of it.

    The same command goes on with a night that was stopped. Exits with 1 where jobs failed, and with
    3 where a target's hit rate is below what the file asks for.
    """
    wanted = read_night(file)
    _require_name(night)
    written = summary or []
    for path in written:
        _require_writable(path)
    found = _run(wanted, night, server or _HERE, quiet=as_json)
    markdown, json = show_summary(found), found.model_dump_json(indent=2) + "\n"
    for path in written:
        write_whole(path, json if path.suffix == ".json" else markdown)
    if as_json:
        print_json(found)
    else:
        print_text(markdown.rstrip("\n"))
    return exit_code(found)


def _run(wanted: NightFile, name: str | None, server: str, *, quiet: bool) -> NightSummary:
    # Only here: `tunebook --help` should not wait for a client of HTTP.
    from tunebook.cache.remote.client import Client

    clock = Clock(lambda: datetime.now().astimezone(), time.monotonic, time.sleep)
    chosen = name or night_name(wanted, clock.now())
    with (
        Client(server, pipeline=PIPELINE) as client,
        NightProgressView(clock.now, quiet=quiet) as view,
    ):
        patience = Patience(clock.monotonic, clock.sleep, view.tell)
        standings = StandingsFile(default_folder(), server, chosen)
        coordinator = Coordinator(client, patience)
        return Night(coordinator, wanted, chosen, standings, clock, view).run(server)


def _require_name(night: str | None) -> None:
    """Raises UsageError for what no budget can be called."""
    if night is not None and not (night.strip() and night.isprintable() and len(night) <= 200):
        raise UsageError(f"--night {night!r}: give a name of one line, of 200 characters at most")


def _require_writable(path: Path) -> None:
    """A night is not to find out at its end. Raises UsageError."""
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise UsageError(f"--summary {path}: no file can be written there; give another place")
