"""Reading an ONNX file and its external data without leaving the model's folder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import onnx
import onnx.inliner
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from tunebook.cache.errors import ModelError
from tunebook.tuner.one_line import one_line

_CHUNK = 1 << 20


def load_onnx(path: Path, *, external_data: bool = True) -> tuple[Any, str]:
    """The model with its external data, and the SHA-256 over both. Raises ModelError, also for a
    model that has external data where that is not let in.

    Without external data the digest is that of the file; with it, of the file and then of each
    data file in the order of their names.
    """
    model = _parse(path)
    if not external_data:
        _refuse_external_data(model, path)
    data_files = _external_files(model, path)
    digest = hashlib.sha256()
    for one in (path, *data_files):
        _feed(digest, one)
    if data_files:
        _load_external_data(model, path)
    if model.functions:
        model = _without_functions(model, path)
    return model, digest.hexdigest()


def graphs(graph: Any) -> Iterator[Any]:
    """The graph itself and every graph in its nodes' attributes, at any depth."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graphs(attribute.g)
            for inner in attribute.graphs:
                yield from graphs(inner)


def _parse(path: Path) -> Any:
    try:
        # Whatever the file is called: by its name ONNX would take a parser of another format.
        model = onnx.load_model(str(path), format="protobuf", load_external_data=False)
    except DecodeError:
        raise ModelError(
            f"{path} is not an ONNX model, or is truncated; export or copy it again"
        ) from None
    if not model.HasField("graph") or not model.ir_version or not model.opset_import:
        raise ModelError(f"{path} is not an ONNX model, or is truncated; export or copy it again")
    if not model.graph.output:
        raise ModelError(f"{path} holds a model without outputs; export it again")
    return model


def _without_functions(model: Any, path: Path) -> Any:
    """Exporters write their modules as functions, which TVM's importer does not look into."""
    try:
        return onnx.inliner.inline_local_functions(model)
    except Exception as error:
        raise ModelError(f"{path}: its functions cannot be inlined: {one_line(error)}") from error


def _load_external_data(model: Any, path: Path) -> None:
    try:
        onnx.load_external_data_for_model(model, str(path.parent))
    except Exception as error:
        raise ModelError(f"{path}: its external data cannot be read: {one_line(error)}") from error


def _refuse_external_data(model: Any, path: Path) -> None:
    for tensor in _tensors(model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise ModelError(
                f"{path}: tensor {tensor.name!r} lies in a file of its own, which is not let in "
                f"here; save the model with all its data in one file"
            )


def _external_files(model: Any, path: Path) -> list[Path]:
    """The data files, each checked to lie in the model's folder and to be long enough."""
    found: dict[str, Path] = {}
    for tensor in _tensors(model):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        entries = {one.key: one.value for one in tensor.external_data}
        location = entries.get("location", "")
        found[location] = _data_file(location, path)
        _require_length(found[location], entries, tensor.name, path)
    return [found[location] for location in sorted(found)]


def _data_file(location: str, path: Path) -> Path:
    # An absolute path of either system, and `..`, are refused before anything is opened.
    parts = PurePosixPath(location.replace("\\", "/")).parts
    absolute = PurePosixPath(location).is_absolute() or bool(PureWindowsPath(location).drive)
    if not location or absolute or ".." in parts:
        raise ModelError(
            f"{path}: external data {location!r} leads outside the model's folder; "
            f"save the model with its data beside it"
        )
    folder = path.parent.resolve()
    target = (path.parent / location).resolve()
    if not target.is_relative_to(folder):
        raise ModelError(
            f"{path}: external data {location!r} is a link that leads outside the model's folder; "
            f"put the data itself beside the model"
        )
    if not target.is_file():
        raise ModelError(
            f"{path}: its external data {location!r} is missing; put it beside the model"
        )
    return target


def _require_length(data: Path, entries: dict[str, str], tensor: str, path: Path) -> None:
    try:
        end = int(entries.get("offset", 0)) + int(entries.get("length", 0))
    except ValueError:
        raise ModelError(f"{path}: tensor {tensor!r} has an unreadable data offset") from None
    if end > data.stat().st_size:
        raise ModelError(
            f"{path}: its external data {data.name!r} is truncated ({data.stat().st_size} bytes, "
            f"{end} needed); copy it again"
        )


def _tensors(model: Any) -> Iterator[Any]:
    for graph in graphs(model.graph):
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors


def _feed(digest: Any, path: Path) -> None:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
