"""The scripts, styles and pictures of the pages, by addresses that change with their content."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "static"
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class StaticFile:
    """A file that is served as it is; `version` changes with its content."""

    content: bytes
    media_type: str
    version: str


@lru_cache(maxsize=1)
def static_files() -> dict[str, StaticFile]:
    """Every file that a browser may ask for, by its path in the folder: the names are looked up
    here and nowhere else, so that no address leads out of it."""
    return {
        path.relative_to(_FOLDER).as_posix(): _read(path)
        for path in sorted(_FOLDER.rglob("*"))
        if path.suffix in _MEDIA_TYPES
    }


def static_address(name: str) -> str:
    """Where a page finds a file. Raises KeyError for one that is not there."""
    return f"/static/{name}?v={static_files()[name].version}"


def _read(path: Path) -> StaticFile:
    content = path.read_bytes()
    version = hashlib.sha256(content).hexdigest()[:12]
    return StaticFile(content, _MEDIA_TYPES[path.suffix], version)
