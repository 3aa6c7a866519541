"""Backups: the database of one moment, and every model that it may name.

A place of backups is a folder that holds one folder for each backup, named by its moment, and one
folder `models` for all of them, since a model never changes.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from tunebook.cache.errors import DatabaseError
from tunebook.cache.model_files import ModelFiles, WrongDigestError
from tunebook.cache.storage.database import Database, parse_url
from tunebook.cache.upkeep.manifest import MANIFEST, Manifest, digest_of
from tunebook.cache.upkeep.postgresql_dumps import dump
from tunebook.cache.upkeep.sqlite_copies import copy_to_file

MODELS = "models"
_NAME = "%Y-%m-%dT%H-%M-%SZ"
_NAMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ")
_ABANDONED = timedelta(days=1)
_SQLITE_FILE = "database.sqlite"
_POSTGRESQL_FILE = "database.dump"


@dataclass(frozen=True)
class Backup:
    """A backup that was made: its folder, what it says of itself, and how many of its models the
    place did not have before."""

    folder: Path
    manifest: Manifest
    new_models: int


def back_up(url: str | None, place: Path, models: ModelFiles | None, moment: datetime) -> Backup:
    """Backs up a database of any version, and the models (None: not them), while others use both.

    The database comes first: what it names was stored before, and models stay. Raises
    DatabaseError, and then leaves no backup.
    """
    folder = place / moment.strftime(_NAME)
    part = place / f".{folder.name}"
    if folder.exists():
        raise DatabaseError(f"there is a backup {folder} already; give another folder, or wait")
    part.mkdir(parents=True, mode=0o700)
    try:
        _remove_abandoned(place, moment)
        manifest = _back_up_database(url, part, moment)
        new_models = 0
        if models is not None:
            manifest.models = sorted(models.digests())
            new_models = copy_models(models, ModelFiles(str(place / MODELS)), manifest.models)
        _write(part / MANIFEST, manifest.model_dump_json(indent=2) + "\n")
        part.rename(folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return Backup(folder, manifest, new_models)


def backups_in(place: Path) -> list[Path]:
    """The backups of a place, oldest first."""
    found = place.iterdir() if place.is_dir() else ()
    return sorted(one for one in found if _NAMES.fullmatch(one.name) and (one / MANIFEST).is_file())


def remove_older(place: Path, keep: int) -> list[Path]:
    """Removes all backups of a place but the newest so many; gives those. Models stay."""
    older = backups_in(place)[:-keep]
    for folder in older:
        if folder.is_symlink():
            # What it leads to was put elsewhere by somebody who may want it there.
            folder.unlink()
        else:
            shutil.rmtree(folder)
    return older


def copy_models(source: ModelFiles, target: ModelFiles, digests: list[str]) -> int:
    """Copies those models that the target does not have; gives how many. Raises DatabaseError for
    one that is damaged."""
    target.check()
    missing = [digest for digest in digests if not target.exists(digest)]
    for digest in missing:
        with target.upload(digest) as copy:
            try:
                for piece in source.read(digest):
                    copy.write(piece)
                copy.finish()
            except WrongDigestError:
                raise DatabaseError(
                    f"the model {digest} is damaged where it lies; upload it again, or restore it "
                    "from an earlier backup"
                ) from None
    return len(missing)


def _remove_abandoned(place: Path, moment: datetime) -> None:
    """Removes what is left of backups that were killed half-way, a day after they began."""
    newest = f".{(moment - _ABANDONED).strftime(_NAME)}"
    for part in place.glob(".*"):
        if _NAMES.fullmatch(part.name[1:]) and part.name < newest:
            # Another backup may remove it meanwhile.
            shutil.rmtree(part, ignore_errors=True)


def _back_up_database(url: str | None, folder: Path, moment: datetime) -> Manifest:
    with closing(Database.open_any(url, read_only=True)) as database:
        version = database.version()
        if version is None:
            raise DatabaseError(
                f"the database {database.name} is empty; give another one with --db"
            )
        path = folder / (_SQLITE_FILE if database.is_file else _POSTGRESQL_FILE)
        if database.is_file:
            copy_to_file(database, path)
        else:
            dump(parse_url(url), path)
    _sync(path)
    return Manifest(
        made_at=moment,
        kind="sqlite" if path.name == _SQLITE_FILE else "postgresql",
        schema_version=version,
        database=path.name,
        bytes=path.stat().st_size,
        sha256=digest_of(path),
        models=[],
    )


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    _sync(path)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
