"""`tunebook build`: compiles a model from the cache, and refuses where schedules are missing."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import BaseModel

from tunebook.service.options import (
    AcceptEmulated,
    AsJson,
    DatabaseUrl,
    ModelPath,
    Shapes,
    TargetText,
    open_store,
)
from tunebook.service.output import (
    MissDocument,
    miss_document,
    print_json,
    print_misses,
    print_text,
)

if TYPE_CHECKING:
    from tunebook.tuner.compiled_model import CompiledModel


class OnMiss(str, Enum):
    """What a build does about missing schedules."""

    ERROR = "error"
    WARN = "warn"


class BuildDocument(BaseModel):
    """A build as machines read it."""

    library: str
    manifest: str
    hits: int
    misses: list[MissDocument]


def build(
    model: ModelPath,
    target: TargetText,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="OUT", help="The library, OUT.so or OUT.")
    ],
    on_miss: Annotated[
        OnMiss, typer.Option("--on-miss", help="Refuse, or build with untuned code and say so.")
    ] = OnMiss.ERROR,
    shape: Shapes = None,
    accept_emulated: AcceptEmulated = False,
    db: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Compile a model with the schedules of the cache; a miss is an error with its reasons."""
    # Only here: `tunebook --help` should not wait for TVM.
    from tunebook.tuner.compile_model import compile_model
    from tunebook.tuner.frontend import read_model
    from tunebook.tuner.llvm_targets import resolve_target
    from tunebook.tuner.shapes import parse_shape_options

    resolved = resolve_target(target)
    imported = read_model(model, parse_shape_options(shape or []), trust_pickles=True)
    with open_store(db) as store:
        compiled = compile_model(
            imported,
            resolved,
            cache=store,
            on_miss=on_miss.value,
            accept_emulated=accept_emulated,
            output=output,
        )
    if as_json:
        print_json(build_document(compiled))
    else:
        _print_build(compiled)


def build_document(compiled: CompiledModel) -> BuildDocument:
    """A build as machines read it."""
    return BuildDocument(
        library=str(compiled.library),
        manifest=str(compiled.manifest_path),
        hits=compiled.hits,
        misses=[miss_document(miss) for miss in compiled.misses],
    )


def _print_build(compiled: CompiledModel) -> None:
    wanted = compiled.hits + len(compiled.misses)
    print_text(f"{compiled.hits} of {wanted} schedules came from the cache.")
    if compiled.misses:
        print_text(f"warning: {len(compiled.misses)} tasks run untuned code, since they missed:")
        print_misses(compiled.misses)
    print_text(f"{compiled.library} with its manifest {compiled.manifest_path}")
