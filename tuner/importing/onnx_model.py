"""The ONNX front end: a file becomes a Relax program with fixed shapes and bound weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
from tvm.relax.frontend.onnx import from_onnx
from tvm.relax.frontend.onnx.onnx_frontend import _get_convert_map

from tunebook.cache.errors import ModelError
from tunebook.tuner.importing.imported_model import ImportedModel, TensorSpec
from tunebook.tuner.importing.onnx_file import graphs, load_onnx
from tunebook.tuner.importing.onnx_folding import fix_inputs, fold_constants
from tunebook.tuner.importing.relax_results import result_tensors
from tunebook.tuner.importing.shapes import DeclaredInput, fix_shapes, shapes_text
from tunebook.tuner.tvm_compat import attempt, importer_says

_HANDLED_BY_THE_IMPORTER = {"If", "Constant"}
_NO_NUMBERS = {
    onnx.TensorProto.UNDEFINED: "of no type",
    onnx.TensorProto.STRING: "a tensor of texts",
}


def read_onnx_model(
    path: Path, shapes: Mapping[str, tuple[int, ...]], *, external_data: bool = True
) -> ImportedModel:
    """Imports an ONNX file. Raises ModelError, and UsageError for shapes that do not fit."""
    model, digest = load_onnx(path, external_data=external_data)
    fixed = _fix_shapes(model, shapes, path)
    fix_inputs(model, fixed)
    specs = _specs(model, fixed, path)
    module = _import(_fold(model, path), fixed, path)
    return ImportedModel(
        name=path.name,
        module=module,
        digest=digest,
        shapes=shapes_text(specs),
        inputs=specs,
        outputs=result_tensors(module, [value.name for value in model.graph.output]),
    )


def unsupported_operators(model: Any) -> list[str]:
    """The operators TVM has no importer for, in subgraphs too, sorted."""
    known = _get_convert_map().keys() | _HANDLED_BY_THE_IMPORTER
    used = {node.op_type for graph in graphs(model.graph) for node in graph.node}
    return sorted(used - known)


def _inputs(model: Any) -> list[Any]:
    # Before IR version 4 every weight is listed as an input too.
    weights = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in weights]


def _fix_shapes(
    model: Any, shapes: Mapping[str, tuple[int, ...]], path: Path
) -> dict[str, tuple[int, ...]]:
    try:
        return fix_shapes(_declared_inputs(model, path), shapes)
    except ModelError:
        # Whoever adds the missing shape must not then learn that it was in vain.
        _refuse(unsupported_operators(model), path)
        raise


def _specs(model: Any, shapes: Mapping[str, tuple[int, ...]], path: Path) -> tuple[TensorSpec, ...]:
    try:
        return tuple(
            TensorSpec(value.name, _dtype(value, path), shapes[value.name])
            for value in _inputs(model)
        )
    except ModelError:
        _refuse(unsupported_operators(model), path)
        raise


def _declared_inputs(model: Any, path: Path) -> list[DeclaredInput]:
    return [_declared(value, path) for value in _inputs(model)]


def _declared(value: Any, path: Path) -> DeclaredInput:
    if not value.type.HasField("tensor_type"):
        kind = value.type.WhichOneof("value")
        raise ModelError(f"{path}: input {value.name!r} is a {kind}, and only tensors can be tuned")
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return DeclaredInput(value.name, None)
    return DeclaredInput(value.name, tuple(_dimension(dim) for dim in tensor.shape.dim))


def _dimension(dim: Any) -> int | str:
    # Exporters write 0 or -1 as often as they leave the field out.
    if dim.HasField("dim_value") and dim.dim_value > 0:
        return int(dim.dim_value)
    return dim.dim_param or "?"


def _dtype(value: Any, path: Path) -> str:
    code = value.type.tensor_type.elem_type
    if code not in onnx.TensorProto.DataType.values() or code in _NO_NUMBERS:
        name = _NO_NUMBERS.get(code, f"of the unknown type {code}")
        raise ModelError(
            f"{path}: input {value.name!r} is {name}, and only numbers can be tuned; export the "
            f"model again"
        )
    return str(onnx.helper.tensor_dtype_to_np_dtype(code))


def _fold(model: Any, path: Path) -> Any:
    before = unsupported_operators(model)
    try:
        folded = fold_constants(model)
    except ModelError as error:
        # onnxruntime names only the first operator that it does not know.
        _refuse(before, path)
        raise ModelError(f"{path}: {error}") from error
    _refuse(unsupported_operators(folded), path)
    return folded


def _refuse(operators: list[str], path: Path) -> None:
    if operators:
        raise ModelError(
            f"{path} uses operators that TVM cannot import: {', '.join(operators)}; "
            f"replace them, or cut the model before them"
        )


def _import(model: Any, shapes: Mapping[str, tuple[int, ...]], path: Path) -> Any:
    shape_lists = {name: list(shape) for name, shape in shapes.items()}
    with importer_says() as said:
        module, reason = attempt(lambda: from_onnx(model, shape_dict=shape_lists))
    if reason:
        raise ModelError(f"{path}: TVM cannot import {_operator(said.getvalue())}: {reason}")
    return module


def _operator(said: str) -> str:
    _, found, rest = said.partition("Error converting operator ")
    return f"operator {rest.partition(',')[0]}" if found else "the model"
