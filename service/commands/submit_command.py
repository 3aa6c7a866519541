"""`tunebook submit`: a job at a coordinator, which tunes a model with a budget of its own."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from tunebook.cache.errors import ExitCode, UsageError
from tunebook.service.commands.options import (
    SERVER_VARIABLE,
    AsJson,
    CompletableTarget,
    LayoutChoice,
    ModelPath,
    Server,
    Shapes,
)
from tunebook.service.given_targets import HOST, this_machine
from tunebook.service.model_digest import file_digest
from tunebook.service.output import print_json, print_text
from tunebook.tuner.importing.shapes import parse_shape_options


class SubmittedDocument(BaseModel):
    """A job that was submitted, as machines read it; `target` is the whole of it, completed by the
    class of its boards."""

    job: int
    state: str
    target: str
    server: str


def submit(
    model: ModelPath,
    trials: Annotated[
        int, typer.Option("--trials", min=1, help="How many trials the job may cost.")
    ],
    target: CompletableTarget = None,
    shape: Shapes = None,
    layout: LayoutChoice = None,
    boards: Annotated[
        str,
        typer.Option(
            "--boards", metavar="CLASS", help="The class of the boards that are to measure."
        ),
    ] = "local",
    priority: Annotated[
        float, typer.Option("--priority", help="What gains count for where jobs compete.")
    ] = 1.0,
    server: Server = None,
    as_json: AsJson = False,
) -> int:
    """Submit a model to a coordinator, which recovers and tunes what is missing for it."""
    if server is None:
        raise UsageError(f"no coordinator is named; give --server, or set {SERVER_VARIABLE}")
    wanted: dict[str, Any] = {
        "shapes": parse_shape_options(shape or []),
        "board_class": boards,
        "budget": {"trials": trials},
        "priority": priority,
        "name": Path(model).stem,
    }
    if target is not None:
        # What it leaves out, the coordinator knows of the class.
        wanted["target"] = this_machine() if target == HOST else target
    if layout is not None:
        wanted["layout"] = layout.value
    digest = file_digest(model)
    # Only here: `tunebook --help` should not wait for a client of HTTP.
    from tunebook.cache.remote.client import Client

    with Client(server) as client:
        client.upload_model(digest, model)
        # The key is this run's own: a retry of the request counts once, a second run is another.
        job = client.request("POST", "/jobs", {"model": digest, **wanted}, uuid.uuid4().hex)
        told = SubmittedDocument(
            job=job["id"], state=job["state"], target=job["target"], server=client.url
        )
    if as_json:
        print_json(told)
    else:
        print_text(f"job {told.job} at {told.server} is {told.state}, for {told.target}")
    return ExitCode.OK
