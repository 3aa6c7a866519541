"""`tunebook lookup`: which of a model's schedules the cache has, and why not the others."""

from __future__ import annotations

from pydantic import BaseModel
from rich.table import Table

from tunebook.cache.misses import LookupAnswer, ScheduleMissError
from tunebook.cache.records import Schedule
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
    print_table,
    print_text,
    show_seconds,
)


class HitDocument(BaseModel):
    """A hit as machines read it; `seconds` is the schedule's median run time."""

    key: str
    record: int
    seconds: float
    emulated: bool


class LookupDocument(BaseModel):
    """The answer to a look-up as machines read it."""

    hits: list[HitDocument]
    misses: list[MissDocument]


def lookup(
    model: ModelPath,
    target: TargetText,
    shape: Shapes = None,
    accept_emulated: AcceptEmulated = False,
    db: DatabaseUrl = None,
    as_json: AsJson = False,
) -> int:
    """Look up every schedule that a build of the model would ask for."""
    # Only here: `tunebook --help` should not wait for TVM.
    from tunebook.tuner.frontend import read_model
    from tunebook.tuner.llvm_targets import resolve_target
    from tunebook.tuner.prepare import prepare
    from tunebook.tuner.shapes import parse_shape_options
    from tunebook.tuner.split import split_model

    resolved = resolve_target(target)
    imported = read_model(model, parse_shape_options(shape or []), trust_pickles=True)
    split = split_model(prepare(imported, resolved))
    with open_store(db) as store:
        answer = store.lookup(split.keys, accept_emulated=accept_emulated)
    if as_json:
        print_json(lookup_document(answer))
    else:
        _print_hits(list(answer.hits.values()), len(split.keys))
    if answer.misses:
        error = ScheduleMissError(answer.misses)
        if not as_json:
            raise error
        return error.exit_code
    return 0


def lookup_document(answer: LookupAnswer) -> LookupDocument:
    """The answer as machines read it."""
    hits = [
        HitDocument(
            key=str(key),
            record=schedule.record_id,
            seconds=schedule.seconds,
            emulated=schedule.emulated,
        )
        for key, schedule in answer.hits.items()
    ]
    return LookupDocument(hits=hits, misses=[miss_document(miss) for miss in answer.misses])


def _print_hits(hits: list[Schedule], wanted: int) -> None:
    table = Table()
    table.add_column("hit", overflow="fold")
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("record", justify="right", no_wrap=True)
    for schedule in hits:
        table.add_row(str(schedule.key), show_seconds(schedule.seconds), str(schedule.record_id))
    if hits:
        print_table(table)
    print_text(f"{len(hits)} of {wanted} schedules are in the cache.")
