"""`tunebook target`: the canonical text of a target, or what is wrong with it."""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic import BaseModel

from tunebook.service.commands.options import AsJson
from tunebook.service.output import print_json, print_text


class TargetDocument(BaseModel):
    """A target as machines read it."""

    spelling: str
    canonical: str


def target(
    spelling: Annotated[
        str, typer.Argument(metavar="T", help="A target text, TVM's JSON, a tag, or 'host'.")
    ],
    as_json: AsJson = False,
) -> None:
    """Print a target's canonical text, which is the part of every key that names it."""
    # Only here: LLVM's lists of processors and attributes come with TVM.
    from tunebook.tuner.llvm_targets import resolve_target

    canonical = str(resolve_target(spelling))
    if as_json:
        print_json(TargetDocument(spelling=spelling, canonical=canonical))
    else:
        print_text(canonical)
