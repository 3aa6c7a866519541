"""`tunebook build`: compiles a model from the cache, and refuses where schedules are missing."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import BaseModel

from tunebook.cache.errors import ExitCode
from tunebook.cache.misses import LookupAnswer, ScheduleMissError
from tunebook.cache.remote.miss_documents import MissDocument, miss_document
from tunebook.service.commands.completed_target import completed_target
from tunebook.service.commands.models import choose, open_model
from tunebook.service.commands.options import (
    AcceptEmulated,
    AsJson,
    ClassOfTarget,
    CompletableTarget,
    DatabaseUrl,
    LayoutChoice,
    ModelPath,
    Server,
    Shapes,
    chosen_server,
    open_cache,
)
from tunebook.service.mending import MendableCache
from tunebook.service.output import (
    print_json,
    print_misses,
    print_text,
)

if TYPE_CHECKING:
    from tunebook.tuner.builds.compiled_model import CompiledModel


class OnMiss(str, Enum):
    """What a build does about missing schedules."""

    ERROR = "error"
    WARN = "warn"


class BuildDocument(BaseModel):
    """A build as machines read it; without library and manifest it was refused for its misses."""

    library: str | None
    manifest: str | None
    hits: int
    misses: list[MissDocument]


def build(
    model: ModelPath,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="OUT", help="The library, OUT.so or OUT.")
    ],
    target: CompletableTarget = None,
    on_miss: Annotated[
        OnMiss, typer.Option("--on-miss", help="Refuse, or build with untuned code and say so.")
    ] = OnMiss.ERROR,
    shape: Shapes = None,
    layout: LayoutChoice = None,
    boards: ClassOfTarget = None,
    accept_emulated: AcceptEmulated = False,
    db: DatabaseUrl = None,
    server: Server = None,
    as_json: AsJson = False,
) -> int:
    """Compile a model with the schedules of the cache; a miss is an error with its reasons."""
    asked = chosen_server(db, server)
    opened = open_model(model, completed_target(target, boards, db, asked), shape, boards)
    # Only here: `tunebook --help` should not wait for TVM.
    from tunebook.tuner.builds.compile_model import compile_model

    with open_cache(db, asked) as opened_cache:
        choices = choose(opened, layout, opened_cache)
        options = opened.options(
            db, choices, accept_emulated=accept_emulated, output=output, server=asked
        )
        cache = MendableCache(opened_cache, options)
        try:
            compiled = compile_model(
                opened.imported,
                opened.target,
                cache=cache,
                on_miss=on_miss.value,
                accept_emulated=accept_emulated,
                output=output,
                choices=choices,
            )
        except ScheduleMissError as error:
            if not as_json:
                raise
            print_json(_refused_document(cache.answer))
            return error.exit_code
    if as_json:
        print_json(build_document(compiled))
    else:
        _print_build(compiled)
    return ExitCode.OK


def build_document(compiled: CompiledModel) -> BuildDocument:
    """A build as machines read it."""
    return BuildDocument(
        library=str(compiled.library),
        manifest=str(compiled.manifest_path),
        hits=compiled.hits,
        misses=[miss_document(miss) for miss in compiled.misses],
    )


def _refused_document(answer: LookupAnswer) -> BuildDocument:
    return BuildDocument(
        library=None,
        manifest=None,
        hits=len(answer.hits),
        misses=[miss_document(miss) for miss in answer.misses],
    )


def _print_build(compiled: CompiledModel) -> None:
    wanted = compiled.hits + len(compiled.misses)
    print_text(f"{compiled.hits} of {wanted} schedules came from the cache.")
    if compiled.misses:
        print_text(f"warning: {len(compiled.misses)} tasks run untuned code, since they missed:")
        print_misses(compiled.misses)
    print_text(f"{compiled.library} with its manifest {compiled.manifest_path}")
