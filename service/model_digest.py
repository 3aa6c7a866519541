"""The digest by which a model is known, of a file or as it is given."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from tunebook.cache.errors import ModelError

_DIGEST = re.compile(r"[0-9a-f]{64}")
_CHUNK = 1 << 20


def file_digest(path: Path) -> str:
    """The SHA-256 of a model file, 64 hex digits. Raises ModelError where it cannot be read.

    That of a model with external data goes over its data files too, which only who reads ONNX
    finds.
    """
    digest = hashlib.sha256()
    size = 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
    except OSError as error:
        raise ModelError(
            f"{path} cannot be read ({error.strerror}); give the path of a model file"
        ) from None
    if size == 0:
        raise ModelError(f"{path} holds 0 bytes; export or copy the model again")
    return digest.hexdigest()


def is_digest(text: str) -> bool:
    """Whether a text is the SHA-256 of a model."""
    return _DIGEST.fullmatch(text) is not None
