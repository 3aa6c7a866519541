"""`tunebook check`: tells a pipeline whether the cache has what its builds will ask for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel
from rich.table import Table

from tunebook.cache.errors import ExitCode, TunebookError
from tunebook.cache.misses import LookupAnswer, Miss, MissGroup, groups
from tunebook.cache.remote.miss_documents import MissDocument, miss_document
from tunebook.service.commands.checked_models import CheckedModel, Question, ask, checked_model
from tunebook.service.commands.completed_target import completed_target
from tunebook.service.commands.github_annotations import annotation, runs_on_github
from tunebook.service.commands.options import (
    AcceptEmulated,
    AsJson,
    ClassOfTarget,
    DatabaseUrl,
    Server,
    Shapes,
    chosen_server,
    open_store,
)
from tunebook.service.given_targets import target_text
from tunebook.service.mending import (
    CommandOptions,
    database_to_name,
    fill_in_all,
    named_boards,
)
from tunebook.service.output import (
    print_error,
    print_json,
    print_misses,
    print_table,
)

# Of one cause an annotation names so many schedules, and counts the others.
_NAMED_SCHEDULES = 10


class CheckedDocument(BaseModel):
    """A model on a target as machines read it; `ok` says whether its hit rate is what was asked."""

    model: str
    digest: str
    target: str
    hits: int
    wanted: int
    hit_rate: float
    ok: bool
    misses: list[MissDocument]


class CheckDocument(BaseModel):
    """A check as machines read it."""

    min_hit_rate: float
    ok: bool
    models: list[CheckedDocument]


@dataclass(frozen=True)
class _Checked:
    model: CheckedModel
    target: str
    answer: LookupAnswer
    misses: tuple[Miss, ...]

    @property
    def wanted(self) -> int:
        return len(self.answer.hits) + len(self.misses)

    @property
    def rate(self) -> float:
        return len(self.answer.hits) / self.wanted if self.wanted else 1.0


def check(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL...", help="Model files, or the SHA-256 of model files."),
    ],
    target: Annotated[
        list[str] | None,
        typer.Option("--target", help="What they are built for, as `build` takes it; repeatable."),
    ] = None,
    boards: ClassOfTarget = None,
    min_hit_rate: Annotated[
        float,
        typer.Option(
            "--min-hit-rate",
            min=0.0,
            max=1.0,
            help="The share of its schedules that the cache must have for each model.",
        ),
    ] = 1.0,
    shape: Shapes = None,
    compiler: Annotated[
        str | None,
        typer.Option(
            "--compiler",
            metavar="C",
            help="The compiler of the builds, such as tvm-0.27.0+llvm-22, where several split the "
            "models.",
        ),
    ] = None,
    accept_emulated: AcceptEmulated = False,
    server: Server = None,
    db: DatabaseUrl = None,
    as_json: AsJson = False,
) -> int:
    """Say the hit rate of models on targets, and exit with 3 where one is too low.

    Only that is a miss: what keeps this from asking has other exit codes.
    """
    on_github = runs_on_github(os.environ)
    # Beside a document for machines there is no room on stdout.
    annotations = sys.stderr if as_json else sys.stdout
    try:
        asked = chosen_server(db, server)
        texts = _targets(target or [None], boards, asked, db)
        checked = _check(models, texts, shape, compiler, accept_emulated, boards, asked, db)
    except TunebookError as error:
        if on_github:
            print(annotation("error", "tunebook check could not ask", str(error)), file=annotations)
        raise
    if as_json:
        print_json(_document(checked, min_hit_rate))
    else:
        _print(checked, min_hit_rate)
    if on_github:
        for line in _annotations(checked, min_hit_rate, os.environ):
            print(line, file=annotations)
    below = [one for one in checked if one.rate < min_hit_rate]
    if not below:
        return ExitCode.OK
    told = ", ".join(f"{one.model.given} on {one.target} ({_counts(one)})" for one in below)
    print_error(f"the hit rate is below {_percent(min_hit_rate)} for {told}")
    return ExitCode.MISS


def _targets(
    given: Sequence[str | None], board_class: str | None, server: str | None, db: str | None
) -> list[str]:
    """The canonical texts of the targets, each once, completed by a class where one is named."""
    whole = (completed_target(spelling, board_class, db, server) for spelling in given)
    return list(dict.fromkeys(map(target_text, whole)))


def _check(
    models: Sequence[str],
    targets: Sequence[str],
    shape: Sequence[str] | None,
    compiler: str | None,
    accept_emulated: bool,
    board_class: str | None,
    server: str | None,
    db: str | None,
) -> list[_Checked]:
    # Only here: `tunebook --help` needs neither.
    from tunebook.cache.remote.client import Client
    from tunebook.tuner.importing.shapes import parse_shape_options

    question = Question(parse_shape_options(shape or []), compiler, accept_emulated)
    wanted = [checked_model(given) for given in models]
    checked = []
    with open_store(db, read_only=True) if server is None else Client(server) as cache:
        for model in wanted:
            for text in targets:
                answer = ask(cache, model, text, question)
                misses = _mendable(answer.misses, model, shape, board_class, db, server)
                checked.append(_Checked(model, text, answer, misses))
    return checked


def _mendable(
    misses: Sequence[Miss],
    model: CheckedModel,
    shape: Sequence[str] | None,
    board_class: str | None,
    db: str | None,
    server: str | None,
) -> tuple[Miss, ...]:
    """The misses with commands that name what is known here of the model and of who was asked; of
    a digest whoever runs them knows the file."""
    path = model.path or Path("MODEL")
    options = CommandOptions(
        path,
        Path(path.stem),
        tuple(shape or ()),
        None if server is not None else database_to_name(db),
        named_boards(board_class),
        server=server,
    )
    return fill_in_all(misses, options)


def _document(checked: Sequence[_Checked], asked: float) -> CheckDocument:
    return CheckDocument(
        min_hit_rate=asked,
        ok=all(one.rate >= asked for one in checked),
        models=[
            CheckedDocument(
                model=one.model.given,
                digest=one.model.digest,
                target=one.target,
                hits=len(one.answer.hits),
                wanted=one.wanted,
                hit_rate=one.rate,
                ok=one.rate >= asked,
                misses=[miss_document(miss) for miss in one.misses],
            )
            for one in checked
        ],
    )


def _print(checked: Sequence[_Checked], asked: float) -> None:
    table = Table()
    table.add_column("model", overflow="fold")
    table.add_column("target", overflow="fold")
    for name in ("hits", "hit rate"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for one in checked:
        verdict = "ok" if one.rate >= asked else f"below {_percent(asked)}"
        table.add_row(one.model.given, one.target, _counts(one), _percent(one.rate), verdict)
    print_table(table)
    for one in checked:
        if one.misses:
            print(f"{one.model.given} on {one.target} misses:", file=sys.stderr)
            print_misses(one.misses)


def _annotations(
    checked: Sequence[_Checked], asked: float, environment: Mapping[str, str]
) -> Iterable[str]:
    """A line for each cause of misses of each model; a warning where its rate is high enough."""
    for one in checked:
        level = "error" if one.rate < asked else "warning"
        title = f"{_counts(one)} schedules hit on {one.target}"
        for group in groups(one.misses):
            yield annotation(level, title, _cause(group), _in_workspace(one.model, environment))


def _cause(group: MissGroup) -> str:
    named = [f"{miss.key.op} | {miss.key.buffers}" for miss in group.misses[:_NAMED_SCHEDULES]]
    more = len(group.misses) - len(named)
    lines = [f"{len(group.misses)} {group.cause}", *named, *([f"and {more} more"] if more else [])]
    return "\n".join([*lines, f"to mend: {group.mending_command}"])


def _in_workspace(model: CheckedModel, environment: Mapping[str, str]) -> str | None:
    """The model's file as an annotation names it: from the root of what was checked out."""
    if model.path is None:
        return None
    root = Path(environment.get("GITHUB_WORKSPACE") or ".").resolve()
    path = model.path.resolve()
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


def _counts(one: _Checked) -> str:
    return f"{len(one.answer.hits)}/{one.wanted}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
