"""`tunebook db`: the database itself."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel

from tunebook.cache.model_files import ModelFiles
from tunebook.cache.storage.database import upgrade as upgrade_schema
from tunebook.cache.storage.schema import HEAD
from tunebook.cache.upkeep.backup import back_up, remove_older
from tunebook.cache.upkeep.restore import restore as restore_backup
from tunebook.cache.upkeep.roll_back import RollBack, roll_back
from tunebook.service.commands.options import AsJson, DatabaseUrl
from tunebook.service.output import print_json, print_text

app = typer.Typer(help="Look after the database.", no_args_is_help=True)

DespiteWorkers = Annotated[
    bool,
    typer.Option("--despite-workers", help="Do it even while workers are alive, which then fail."),
]

Models = Annotated[
    str | None,
    typer.Option(
        "--models",
        metavar="FOLDER|URL",
        help="Where the coordinator keeps models. Default: in your data folder.",
    ),
]
WithoutModels = Annotated[
    bool, typer.Option("--without-models", help="Only the database, and no models.")
]


class UpgradeDocument(BaseModel):
    """A schema upgrade as machines read it; `before` is None for a database made just now."""

    before: str | None
    after: str


class LossDocument(BaseModel):
    """What a roll-back lost, and how many there were of it."""

    what: str
    count: int


class BackupDocument(BaseModel):
    """A backup that was made, or restored, as machines read it; `new_models` were not there."""

    backup: str
    schema_version: str
    bytes: int
    models: int
    new_models: int


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


@app.command("backup")
def backup(
    place: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where backups are kept, this one too.")
    ],
    models: Models = None,
    without_models: WithoutModels = False,
    keep: Annotated[
        int | None,
        typer.Option("--keep", min=1, help="How many backups to keep; older ones are removed."),
    ] = None,
    db: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Back up the database and the models, while coordinators and workers go on.

    What is backed up is the database of one moment and every model that it names. PostgreSQL's is
    taken by its own pg_dump.
    """
    files = None if without_models else ModelFiles(models)
    made = back_up(db, place, files, datetime.now(timezone.utc))
    if keep is not None:
        remove_older(place, keep)
    document = BackupDocument(
        backup=str(made.folder),
        schema_version=made.manifest.schema_version,
        bytes=made.manifest.bytes,
        models=len(made.manifest.models),
        new_models=made.new_models,
    )
    if as_json:
        print_json(document)
        return
    print_text(
        f"Backed up to {document.backup}: schema {document.schema_version}, {document.bytes} "
        f"bytes, and {document.models} models, {document.new_models} of them new."
    )


@app.command("restore")
def restore(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A backup, or where backups are: the newest.")
    ],
    models: Models = None,
    without_models: WithoutModels = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Even where the database is not empty: it is lost.")
    ] = False,
    despite_workers: DespiteWorkers = False,
    db: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Restore a backup into a database that is empty, or not there, and its models.

    Stop coordinators and workers first.
    """
    files = None if without_models else ModelFiles(models)
    done = restore_backup(folder, db, files, overwrite=overwrite, despite_workers=despite_workers)
    document = BackupDocument(
        backup=str(done.backup),
        schema_version=done.manifest.schema_version,
        bytes=done.manifest.bytes,
        models=0 if without_models else len(done.manifest.models),
        new_models=done.new_models,
    )
    if as_json:
        print_json(document)
        return
    print_text(
        f"Restored {document.backup}: schema {document.schema_version}, and {document.models} "
        f"models, {document.new_models} of which were not there."
    )
    if document.schema_version != HEAD:
        print_text("It is of an older Tunebook: run `tunebook db upgrade`.")


def _document(done: RollBack) -> DowngradeDocument:
    lost = [LossDocument(what=loss.what, count=loss.count) for loss in done.lost]
    return DowngradeDocument(before=done.before, after=done.after, lost=lost)
