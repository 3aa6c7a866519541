"""`tunebook db`: the database itself."""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic import BaseModel

from tunebook.cache.queue.roll_back import RollBack, roll_back
from tunebook.cache.storage.database import upgrade as upgrade_schema
from tunebook.service.commands.options import AsJson, DatabaseUrl
from tunebook.service.output import print_json, print_text

app = typer.Typer(help="Look after the database.", no_args_is_help=True)

DespiteWorkers = Annotated[
    bool,
    typer.Option("--despite-workers", help="Do it even while workers are alive, which then fail."),
]


class UpgradeDocument(BaseModel):
    """A schema upgrade as machines read it; `before` is None for a database made just now."""

    before: str | None
    after: str


class LossDocument(BaseModel):
    """What a roll-back lost, and how many there were of it."""

    what: str
    count: int


class DowngradeDocument(BaseModel):
    """A roll-back of the schema as machines read it."""

    before: str
    after: str
    lost: list[LossDocument]


@app.command("upgrade")
def upgrade(db: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Bring the database to this version's schema; a new one is made where none is."""
    before, after = upgrade_schema(db)
    if as_json:
        print_json(UpgradeDocument(before=before, after=after))
    elif before == after:
        print_text(f"The database is at schema {after} already.")
    else:
        print_text(f"The database went from schema {before or 'none'} to {after}.")


@app.command("downgrade")
def downgrade(
    revision: Annotated[
        str, typer.Argument(metavar="REVISION", help="The older schema to go back to: 0003.")
    ],
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="Lose what the older schema has no place for."),
    ] = False,
    despite_workers: DespiteWorkers = False,
    db: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Bring the database back to an older schema, for an older Tunebook.

    Refuses while workers are alive, and names what would be lost. It is one transaction: what the
    older schema can hold stays, and an upgrade brings it forward again.
    """
    done = roll_back(db, revision, accept_loss=accept_loss, despite_workers=despite_workers)
    if as_json:
        print_json(_document(done))
        return
    print_text(f"The database went from schema {done.before} back to {done.after}.")
    for loss in done.lost:
        print_text(f"Lost: {loss.count} {loss.what}.")


def _document(done: RollBack) -> DowngradeDocument:
    lost = [LossDocument(what=loss.what, count=loss.count) for loss in done.lost]
    return DowngradeDocument(before=done.before, after=done.after, lost=lost)
