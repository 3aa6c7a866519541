"""What a backup says of itself."""

from __future__ import annotations

import hashlib
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ValidationError

from tunebook.cache.errors import DatabaseError

MANIFEST = "manifest.json"
_PIECE_BYTES = 2**20


class Manifest(BaseModel):
    """What a backup holds: one file with the database, and models by their SHA-256, which lie in
    the folder `models` that all backups of a place share."""

    made_at: datetime
    kind: Literal["sqlite", "postgresql"]
    schema_version: str
    database: str
    bytes: int
    sha256: str
    models: list[str]


def read_manifest(backup: Path) -> Manifest:
    """The manifest of a backup. Raises DatabaseError for a folder that is none."""
    path = backup / MANIFEST
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise DatabaseError(f"{backup} is no backup: it has no {MANIFEST}") from None
    except ValidationError:
        raise DatabaseError(f"{path} cannot be read; take another backup") from None


def check_database_file(backup: Path, manifest: Manifest) -> Path:
    """The file with the database. Raises DatabaseError where it is not what was backed up."""
    path = backup / manifest.database
    if not path.is_file():
        raise DatabaseError(f"the backup {backup} lacks its {manifest.database}; take another one")
    if digest_of(path) != manifest.sha256:
        raise DatabaseError(f"{path} is damaged: its SHA-256 is another; take another backup")
    return path


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            found.update(piece)
    return found.hexdigest()
