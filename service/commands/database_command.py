"""`tunebook db`: the database itself."""

from __future__ import annotations

import typer
from pydantic import BaseModel

from tunebook.cache.storage.database import upgrade as upgrade_schema
from tunebook.service.commands.options import AsJson, DatabaseUrl
from tunebook.service.output import print_json, print_text

app = typer.Typer(help="Look after the database.", no_args_is_help=True)


class UpgradeDocument(BaseModel):
    """A schema upgrade as machines read it; `before` is None for a database made just now."""

    before: str | None
    after: str


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


@app.callback()
def database() -> None:
    """Keeps `upgrade` a command of its own while it is the only one."""
