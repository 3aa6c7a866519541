"""`tunebook worker`: serves a coordinator's jobs with the boards of this machine, or others."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tunebook.cache.errors import ExitCode
from tunebook.cache.live.live import Live
from tunebook.cache.remote.token_file import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE
from tunebook.service.commands.options import (
    BoardTimeout,
    DatabaseUrl,
    RedisUrl,
    Tracker,
    open_store,
)
from tunebook.service.commands.stopping import stop_when_told
from tunebook.service.durations import parse_duration
from tunebook.service.mending import DATABASE_VARIABLE, REDIS_VARIABLE

if TYPE_CHECKING:
    from tunebook.workers.fleet.model_fetching import ModelSource

_GIBIBYTE = 2**30
_MOST_MEMORY = 8 * _GIBIBYTE


def worker(
    models: Annotated[
        str | None,
        typer.Option(
            "--models",
            metavar="FOLDER|URL",
            help="Where the coordinator keeps models: the same folder or object storage, or its "
            f"own address (a token of role worker in {TOKEN_VARIABLE}). Default: in your data "
            "folder.",
        ),
    ] = None,
    boards: Annotated[
        list[str] | None,
        typer.Option(
            "--boards",
            metavar="CLASS[@HOST:PORT]",
            help="Boards to serve, at their tracker; 'local' is this machine, 'emulated-aarch64' "
            "an emulated one; repeatable. Default: this machine, and the emulated board where it "
            "is installed.",
        ),
    ] = None,
    tracker: Tracker = None,
    board_timeout: BoardTimeout = "60s",
    most_boards: Annotated[
        int,
        typer.Option(
            "--most-boards",
            min=1,
            help="Boards of one class to use at once; what is free beyond them is left to other "
            "workers.",
        ),
    ] = 8,
    reference_every: Annotated[
        str,
        typer.Option(
            "--reference-every",
            metavar="TIME",
            help="How old a board's last reference measurement may be: 90s, 15m. One in quarantine "
            "is looked at three times as often.",
        ),
    ] = "15m",
    import_time: Annotated[
        str, typer.Option("--import-time", help="How long opening one model may take: 90s, 10m.")
    ] = "5m",
    import_memory: Annotated[
        float | None,
        typer.Option(
            "--import-memory",
            min=0.05,
            help="GiB of memory that opening it may take. Default: 8, or three quarters of what "
            "this machine has where that is less.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Makes the search repeatable.")] = 0,
    name: Annotated[
        str | None, typer.Option("--name", help="Its name. Default: made of host and process.")
    ] = None,
    db: DatabaseUrl = None,
    redis: RedisUrl = None,
    until_input_ends: Annotated[bool, typer.Option("--until-input-ends", hidden=True)] = False,
) -> int:
    """Serve submitted jobs until stopped: split their models, recover, search and measure."""
    timeout, seconds = parse_duration(board_timeout), parse_duration(import_time)
    reference_seconds = parse_duration(reference_every)

    # Only here: `tunebook --help` should not wait for TVM.
    from tunebook.service.logs import log_as_json
    from tunebook.workers.boards.board_classes import board_classes
    from tunebook.workers.fleet.fleet_worker import FleetSettings, run_fleet_worker
    from tunebook.workers.fleet.reference_checks import ReferenceTimes
    from tunebook.workers.fleet.untrusted_models import SplitLimits
    from tunebook.workers.rounds.workbench import WorkerSettings

    classes = board_classes(boards or [], tracker)
    settings = FleetSettings(
        WorkerSettings.for_this_machine(board_timeout=timeout, seed=seed, most_boards=most_boards),
        SplitLimits(memory=_memory(import_memory), seconds=seconds),
        ReferenceTimes.every_seconds(reference_seconds),
    )
    with open_store(db) as store, stop_when_told(until_input_ends=until_input_ends) as stop:
        source = _model_source(models)
        _forget_secrets()
        log_as_json()
        # What a search tells of each of its steps is for those who change it.
        logging.getLogger("tvm").setLevel(logging.WARNING)
        with Live.open(redis, store.place() if redis else "") as live:
            store.follow(live.tell)
            ended = run_fleet_worker(
                store, source, classes, settings, stop=stop, name=name, bell=live.bell
            )
    if not ended:
        # A thread is in native code that nothing else stops; what it held was given back,
        # or is another's once its lease dies.
        logging.shutdown()
        sys.stderr.flush()
        os._exit(ExitCode.OK)
    return ExitCode.OK


def _memory(gibibytes: float | None) -> int:
    """Bytes that opening a model may take."""
    if gibibytes is not None:
        return int(gibibytes * _GIBIBYTE)
    # Only here: it comes with the extra `tune`, which `tunebook --help` does not need.
    import psutil

    return min(_MOST_MEMORY, int(psutil.virtual_memory().total * 3 // 4))


def _model_source(models: str | None) -> ModelSource:
    if models is not None and models.startswith(("http://", "https://")):
        from tunebook.cache.remote.client import Client

        return Client(models)
    from tunebook.cache.model_files import ModelFiles

    return ModelFiles(models)


def _forget_secrets() -> None:
    """The processes that open models and build what was found in traces have no use for them."""
    for variable in (DATABASE_VARIABLE, REDIS_VARIABLE, TOKEN_VARIABLE, TOKEN_FILE_VARIABLE):
        os.environ.pop(variable, None)
