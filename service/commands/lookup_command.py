"""`tunebook lookup`: which of a model's schedules the cache has, and why not the others."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from pydantic import BaseModel
from rich.table import Table

from tunebook.cache.errors import ExitCode, UsageError
from tunebook.cache.misses import LookupAnswer, ScheduleMissError
from tunebook.cache.records import Schedule
from tunebook.cache.remote.miss_documents import MissDocument, miss_document
from tunebook.service.commands.completed_target import completed_target
from tunebook.service.commands.explanation import (
    Near,
    NearDocument,
    near_documents,
    near_misses,
    show_near,
)
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
    open_store,
)
from tunebook.service.mending import MendableCache
from tunebook.service.output import (
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
    """The answer to a look-up as machines read it.

    `passed_over` says which records were refused and what is served instead, `near` gives by key
    what is stored near each miss, where that was asked for.
    """

    hits: list[HitDocument]
    misses: list[MissDocument]
    passed_over: list[str]
    near: dict[str, list[NearDocument]]


def lookup(
    model: ModelPath,
    target: CompletableTarget = None,
    shape: Shapes = None,
    layout: LayoutChoice = None,
    boards: ClassOfTarget = None,
    accept_emulated: AcceptEmulated = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show everything that is stored near a miss.")
    ] = False,
    db: DatabaseUrl = None,
    server: Server = None,
    as_json: AsJson = False,
) -> int:
    """Look up every schedule that a build of the model would ask for."""
    asked = chosen_server(db, server)
    if explain and asked is not None:
        raise UsageError("--explain reads a database, and a coordinator was named; give its --db")
    opened = open_model(model, completed_target(target, boards, db, asked), shape, boards)
    # Only here: `tunebook --help` should not wait for TVM.
    from tunebook.tuner.splitting.prepare import prepare
    from tunebook.tuner.splitting.split import split_model

    with open_cache(db, asked) as opened_cache:
        choices = choose(opened, layout, opened_cache)
        split = split_model(prepare(opened.imported, opened.target, choices), with_tir=False)
        options = opened.options(db, choices, accept_emulated=accept_emulated, server=asked)
        cache = MendableCache(opened_cache, options)
        answer = cache.lookup(split.keys, accept_emulated=accept_emulated, hints=split.hints)
    near: Near = {}
    if explain:
        with open_store(db, read_only=True) as store:
            near = near_misses(store, split, answer.misses, emulated=accept_emulated)
    if as_json:
        print_json(lookup_document(answer, near))
        return ExitCode.MISS if answer.misses else ExitCode.OK
    _print_hits(list(answer.hits.values()), len(split.keys))
    if near:
        print(show_near(near), file=sys.stderr)
    if answer.misses:
        raise ScheduleMissError(answer.misses)
    return ExitCode.OK


def lookup_document(answer: LookupAnswer, near: Near) -> LookupDocument:
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
    return LookupDocument(
        hits=hits,
        misses=[miss_document(miss) for miss in answer.misses],
        passed_over=list(answer.passed_over),
        near={str(key): near_documents(found) for key, found in near.items()},
    )


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
