"""Restoring a backup, into nothing unless told otherwise."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tunebook.cache.errors import DatabaseError
from tunebook.cache.model_files import ModelFiles
from tunebook.cache.storage.database import Database, parse_url
from tunebook.cache.storage.schema import HEAD, OLDER
from tunebook.cache.upkeep.at_work import require_nobody_at_work
from tunebook.cache.upkeep.backup import MODELS, backups_in, copy_models
from tunebook.cache.upkeep.manifest import MANIFEST, Manifest, check_database_file, read_manifest
from tunebook.cache.upkeep.postgresql_dumps import load
from tunebook.cache.upkeep.sqlite_copies import copy_from_file


@dataclass(frozen=True)
class Restored:
    """A backup that was restored, and how many of its models were not there."""

    backup: Path
    manifest: Manifest
    new_models: int


def restore(
    folder: Path,
    url: str | None,
    models: ModelFiles | None,
    *,
    overwrite: bool = False,
    despite_workers: bool = False,
) -> Restored:
    """Restores a backup, or the newest one of a place, with its models (None: not them).

    Models come first, so that the database names none that is missing. Raises DatabaseError where
    the database is not empty, unless it is to be overwritten and nobody works on it; for another
    kind of database, for a newer schema, and for a backup that is damaged.
    """
    backup = _find(folder)
    manifest = read_manifest(backup)
    if manifest.schema_version not in (*OLDER, HEAD):
        raise DatabaseError(
            f"the backup {backup} has schema {manifest.schema_version}, newer than {HEAD}, the "
            "newest that this Tunebook knows; restore it with the newer Tunebook"
        )
    path = check_database_file(backup, manifest)
    _check_target(url, manifest, overwrite, despite_workers)
    new_models = 0
    if models is not None:
        kept = ModelFiles(str(backup.parent / MODELS))
        new_models = copy_models(kept, models, manifest.models)
    if manifest.kind == "postgresql":
        load(path, parse_url(url))
    else:
        with closing(Database.open_any(url)) as database:
            copy_from_file(path, database)
    return Restored(backup, manifest, new_models)


def _find(folder: Path) -> Path:
    if (folder / MANIFEST).is_file():
        return folder
    found = backups_in(folder)
    if not found:
        raise DatabaseError(f"{folder} is no backup and holds none; give a folder that does")
    return found[-1]


def _check_target(
    url: str | None, manifest: Manifest, overwrite: bool, despite_workers: bool
) -> None:
    target = parse_url(url)
    is_file = target.drivername == "sqlite"
    if is_file != (manifest.kind == "sqlite"):
        raise DatabaseError(
            f"the backup is of a {manifest.kind} database; give one of that kind with --db"
        )
    if is_file and not Path(target.database or "").exists():
        return
    with closing(Database.open_any(url)) as database:
        if database.version() is None:
            return
        if not overwrite:
            raise DatabaseError(
                f"the database {database.name} is not empty; give another one with --db, or "
                "--overwrite to lose what it has"
            )
        if not despite_workers:
            require_nobody_at_work(database)
