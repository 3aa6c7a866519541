"""`tunebook key`: the keys that a model asks for, and how two keys differ."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel

from tunebook.cache.errors import ExitCode, UsageError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.likeness import Likeness
from tunebook.cache.lookup.distances import differences
from tunebook.cache.misses import Difference, in_words
from tunebook.cache.records import Model, Task
from tunebook.cache.remote.miss_documents import DifferenceDocument
from tunebook.cache.untrusted.trace_grammar import shown
from tunebook.service.commands.models import choose, open_model
from tunebook.service.commands.options import (
    AsJson,
    DatabaseUrl,
    Layout,
    LayoutChoice,
    Shapes,
    open_store_if_any,
)
from tunebook.service.output import print_json, print_text

_LONGEST = 500


class LikenessDocument(BaseModel):
    """What a program is like beyond its key; an empty text is unknown, or none."""

    structure: str
    anchor: str
    attributes: str
    constants: str


class KeyDocument(BaseModel):
    """A key as machines read it, with its five parts and how often the model calls the program."""

    key: str
    op: str
    buffers: str
    target: str
    compiler: str
    workload_hash: str
    weight: int
    likeness: LikenessDocument


class KeysDocument(BaseModel):
    """A model's keys as machines read them."""

    model_digest: str
    shapes: str
    choices: str
    target_features: str
    keys: list[KeyDocument]


class KeyDiffDocument(BaseModel):
    """How two keys differ, `wanted` being the first and `nearest` the second."""

    equal: bool
    differences: list[DifferenceDocument]


def key(
    model: Annotated[
        Path | None,
        typer.Argument(metavar="MODEL", help="An ONNX model, or a .pt2 file of torch.export."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", help="What the model is compiled for; see `tunebook build`."),
    ] = None,
    diff: Annotated[
        tuple[str, str] | None,
        typer.Option("--diff", metavar="A B", help="Two keys: say how they differ; no model."),
    ] = None,
    shape: Shapes = None,
    layout: LayoutChoice = None,
    db: DatabaseUrl = None,
    as_json: AsJson = False,
) -> int:
    """Print the keys that a build of the model looks up, or how two keys differ."""
    if diff is not None:
        if model is not None or target is not None:
            raise UsageError("--diff compares two keys: give it no model and no target")
        return _diff(*diff, as_json=as_json)
    if model is None or target is None:
        raise UsageError("give a model and its --target, or two keys to --diff")
    split = _split(model, target, shape, layout, db)
    if as_json:
        print_json(keys_document(split))
    else:
        print_text("\n".join(map(str, split.keys)))
    return ExitCode.OK


def keys_document(model: Model) -> KeysDocument:
    """A model's keys as machines read them."""
    return KeysDocument(
        model_digest=model.digest,
        shapes=model.shapes,
        choices=model.choices,
        target_features=model.target_features,
        keys=[_key_document(task, model.target) for task in model.tasks],
    )


def _split(
    path: Path, target: str, shape: list[str] | None, layout: Layout | None, db: str | None
) -> Model:
    opened = open_model(path, target, shape)
    # Only here: `tunebook key --diff` needs no TVM.
    from tunebook.tuner.splitting.prepare import prepare
    from tunebook.tuner.splitting.split import split_model

    with open_store_if_any(db) as store:
        choices = choose(opened, layout, store)
    return split_model(prepare(opened.imported, opened.target, choices), with_tir=False)


def _key_document(task: Task, target: str) -> KeyDocument:
    asked = task.workload.key.on(target)
    return KeyDocument(
        key=str(asked),
        op=asked.op,
        buffers=asked.buffers,
        target=asked.target,
        compiler=asked.compiler,
        workload_hash=asked.workload_hash,
        weight=task.weight,
        likeness=_likeness_document(task.workload.likeness),
    )


def _likeness_document(likeness: Likeness) -> LikenessDocument:
    return LikenessDocument(**vars(likeness))


def _diff(first: str, second: str, *, as_json: bool) -> int:
    one, other = _parse(first), _parse(second)
    found = () if one == other else differences(one, other)
    if as_json:
        documents = [DifferenceDocument(**vars(difference)) for difference in found]
        print_json(KeyDiffDocument(equal=not found, differences=documents))
    else:
        print_text("\n".join(map(_line, found)) or "The keys are the same.")
    return ExitCode.MISS if found else ExitCode.OK


def _parse(text: str) -> ScheduleKey:
    try:
        return ScheduleKey.parse(text.strip())
    except ValueError as error:
        raise UsageError(
            f"{shown(text)} is no key: {error}; `tunebook key MODEL` prints some"
        ) from error


def _line(difference: Difference) -> str:
    one, other = in_words(difference.wanted), in_words(difference.nearest)
    return f"{difference.field}: {_shortened(one)} | {_shortened(other)}"


def _shortened(text: str) -> str:
    """Any text can be a part of a key; what makes one differ from another fits into a line."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
