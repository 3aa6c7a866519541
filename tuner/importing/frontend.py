"""Reading a model file: which front end takes it, and what a path must be before one does."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tunebook.cache.errors import ModelError
from tunebook.tuner.importing.imported_model import ImportedModel
from tunebook.tuner.importing.onnx_model import read_onnx_model
from tunebook.tuner.importing.torch_model import read_torch_model


def read_model(
    path: Path,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    *,
    trust_pickles: bool = False,
    external_data: bool = True,
) -> ImportedModel:
    """Reads an ONNX file, or a `.pt2` file of torch.export, with the input shapes fixed.

    Reading a `.pt2` file unpickles it, which runs what it says: only with `trust_pickles`, which
    only a local command line may set. Without `external_data` an ONNX file must hold all its
    tensors itself. Raises ModelError, and UsageError for shapes that do not fit the model.
    """
    path = Path(path)
    _require_file(path)
    if path.suffix == ".pt2":
        if not trust_pickles:
            raise ModelError(
                f"{path}: a .pt2 file runs code when it is read; only the command line, on a file "
                f"that you trust, reads it"
            )
        return read_torch_model(path, shapes or {})
    return read_onnx_model(path, shapes or {}, external_data=external_data)


def _require_file(path: Path) -> None:
    if path.is_dir():
        raise ModelError(f"{path} is a directory; give the model file inside it")
    if not path.exists():
        raise ModelError(f"{path} does not exist; give the path of an ONNX file")
    if not path.is_file():
        raise ModelError(f"{path} is not a regular file; give the path of an ONNX file")
    if not os.access(path, os.R_OK):
        raise ModelError(f"{path} cannot be read; check its permissions")
    if path.stat().st_size == 0:
        raise ModelError(f"{path} holds 0 bytes; export or copy the model again")
