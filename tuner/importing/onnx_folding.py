"""Fixing an ONNX model's input shapes and folding what then is constant.

TVM's importer does not see through shape arithmetic (a Reshape whose shape is computed from the
input's), so it is folded before.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

from tunebook.cache.errors import ModelError
from tunebook.tuner.importing.onnx_file import graphs
from tunebook.tuner.one_line import one_line

# onnxruntime has no half precision kernels on most CPUs and writes casts to float32 instead.
_HALF = {onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}
_SILENT = 4  # onnxruntime's severity "fatal"
_LARGEST_FOLDED = 1 << 16  # elements; shape arithmetic is small, and folded tensors are stored


def fix_inputs(model: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Writes the shapes into the model and drops what was inferred from open ones."""
    for value in model.graph.input:
        if value.name not in shapes:
            continue
        shape = value.type.tensor_type.shape
        shape.ClearField("dim")
        for size in shapes[value.name]:
            shape.dim.add().dim_value = size
        shape.SetInParent()
    model.graph.ClearField("value_info")
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")


def fold_constants(model: Any) -> Any:
    """The model with constant parts folded. Raises ModelError when the model contradicts itself."""
    if _uses_half_precision(model):
        return _fold_shape_arithmetic(model)
    return _fold_with_onnxruntime(model)


def _uses_half_precision(model: Any) -> bool:
    for graph in graphs(model.graph):
        if any(tensor.data_type in _HALF for tensor in graph.initializer):
            return True
        values = (*graph.input, *graph.output)
        if any(value.type.tensor_type.elem_type in _HALF for value in values):
            return True
        for node in graph.node:
            if node.op_type == "Cast" and any(
                a.name == "to" and a.i in _HALF for a in node.attribute
            ):
                return True
    return False


def _fold_with_onnxruntime(model: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = _SILENT
    with tempfile.TemporaryDirectory() as folder:
        folded = Path(folder) / "folded.onnx"
        options.optimized_model_filepath = str(folded)
        try:
            onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise ModelError(f"onnxruntime refuses the model: {one_line(error)}") from error
        return onnx.load_model(str(folded))


def _fold_shape_arithmetic(model: Any) -> Any:
    """Folds nodes whose inputs are all known, and Shape of a fixed shape, until nothing changes."""
    while True:
        try:
            inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
        except Exception as error:
            raise ModelError(
                f"the model's shapes contradict each other: {one_line(error)}"
            ) from error
        if not _fold_once(model, _fixed_shapes(inferred)):
            return inferred


def _fold_once(model: Any, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    graph = model.graph
    known = {tensor.name: tensor for tensor in graph.initializer}
    opset = model.opset_import
    outputs = {value.name for value in graph.output}
    folded = []
    for node in graph.node:
        try:
            value = _value_of(node, known, shapes, opset)
        except Exception as error:
            raise ModelError(
                f"the constant part {node.output[0]!r} ({node.op_type}) cannot be computed: "
                f"{one_line(error)}"
            ) from error
        if value is None or node.output[0] in outputs:
            continue
        tensor = onnx.numpy_helper.from_array(np.asarray(value), node.output[0])
        graph.initializer.append(tensor)
        known[tensor.name] = tensor
        folded.append(node)
    for node in folded:
        graph.node.remove(node)
    return bool(folded)


def _value_of(
    node: Any, known: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], opset: Any
) -> Any:
    """The value of a node's one output when it is known and small, else None."""
    if len(node.output) != 1 or node.domain not in ("", "ai.onnx"):
        return None
    if node.op_type == "Shape" and node.input[0] in shapes and not node.attribute:
        return np.array(shapes[node.input[0]], dtype=np.int64)
    names = [name for name in node.input if name]
    if any(name not in known for name in names) or (not names and node.op_type != "Constant"):
        return None
    arrays = {name: onnx.numpy_helper.to_array(known[name]) for name in names}
    if any(array.size > _LARGEST_FOLDED for array in arrays.values()):
        return None
    single = onnx.helper.make_model(_graph_of(node, arrays), opset_imports=list(opset))
    value = ReferenceEvaluator(single).run(None, arrays)[0]
    return value if np.asarray(value).size <= _LARGEST_FOLDED else None


def _graph_of(node: Any, arrays: Mapping[str, Any]) -> Any:
    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in arrays.items()
    ]
    output = onnx.ValueInfoProto(name=node.output[0])
    return onnx.helper.make_graph([node], "one_node", inputs, [output])


def _fixed_shapes(model: Any) -> dict[str, tuple[int, ...]]:
    shapes = {}
    for value in (*model.graph.input, *model.graph.value_info):
        if value.type.tensor_type.HasField("shape"):
            dims = value.type.tensor_type.shape.dim
            if all(dim.HasField("dim_value") for dim in dims):
                shapes[value.name] = tuple(dim.dim_value for dim in dims)
    for tensor in model.graph.initializer:
        shapes[tensor.name] = tuple(tensor.dims)
    return shapes
