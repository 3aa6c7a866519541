"""Models from where the coordinator keeps them, checked on the way."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from tunebook.cache.errors import ModelError


class ModelSource(Protocol):
    """Where models are by their SHA-256: `ModelFiles`, or a coordinator's client."""

    def read(self, digest: str) -> Iterator[bytes]:
        """The model in pieces. Raises NotFoundError, and ServerError where nobody answers."""
        ...


def fetch_model(source: ModelSource, digest: str, path: Path) -> None:
    """Writes a model to `path`. Raises ModelError where it is not what its digest says, and what
    the source raises."""
    found = hashlib.sha256()
    with path.open("wb") as file:
        for piece in source.read(digest):
            found.update(piece)
            file.write(piece)
    if found.hexdigest() != digest:
        raise ModelError(
            f"the stored model {digest} is damaged: its SHA-256 is {found.hexdigest()}; upload it "
            f"again"
        )
