"""Small ONNX models made for the tests.

Also a script: `python onnx_models.py FOLDER` writes each of SCRIPTED there, for end-to-end runs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8


def save(path: Path, model: Any) -> Path:
    onnx.save(model, str(path))
    return path


def model_of(
    nodes: Sequence[Any],
    inputs: dict[str, tuple[int, Sequence[int | str] | None]],
    outputs: dict[str, int],
    weights: dict[str, Any] | None = None,
    *,
    imports: Sequence[tuple[str, int]] = (("", OPSET),),
) -> Any:
    """A model of nodes; inputs with element type and dimensions, outputs with element type."""
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(name, *of) for name, of in inputs.items()],
        [helper.make_tensor_value_info(name, of, None) for name, of in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    opsets = [helper.make_opsetid(domain, version) for domain, version in imports]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def random(*shape: int, seed: int = 0, dtype: str = "float32") -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def convolution() -> Any:
    """A convolution and a relu on a 12x12 image of 4 channels."""
    return model_of(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3]),
            helper.make_node("Relu", ["c"], ["y"]),
        ],
        {"x": (TensorProto.FLOAT, [1, 4, 12, 12])},
        {"y": TensorProto.FLOAT},
        {"w": random(8, 4, 3, 3)},
    )


def scaled_convolution(
    *,
    batch: int = 1,
    dilation: int = 1,
    scale: float = 0.5,
    add: bool = False,
    dtype: str = "float32",
) -> Any:
    """A convolution of 8 channels on a 16x16 image, perhaps with its input added, a relu, and a
    scaling by a constant: one task."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    around = {"pads": [dilation] * 4, "dilations": [dilation] * 2}
    added = [helper.make_node("Add", ["c", "x"], ["a"])] if add else []
    return model_of(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], **around),
            *added,
            helper.make_node("Relu", ["a" if add else "c"], ["r"]),
            helper.make_node("Mul", ["r", "scale"], ["y"]),
        ],
        {"x": (kind, [batch, 8, 16, 16])},
        {"y": kind},
        {"w": random(8, 8, 3, 3, dtype=dtype), "scale": np.array(scale, dtype)},
    )


def upscaled() -> Any:
    """A convolution, a relu and a transposed convolution, which doubles the image again."""
    return model_of(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], strides=[2, 2], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("ConvTranspose", ["r", "t"], ["y"], strides=[2, 2]),
        ],
        {"x": (TensorProto.FLOAT, [1, 3, 12, 12])},
        {"y": TensorProto.FLOAT},
        {"w": random(8, 3, 3, 3), "t": random(8, 4, 2, 2, seed=1)},
    )


def two_strides() -> Any:
    """Two convolutions with the same operators, shapes and dtypes of everything, told apart by
    stride and padding alone: 9x9 to 5x5 by stride 2 with padding, and by stride 1 without."""
    return model_of(
        [
            helper.make_node(
                "Conv", ["x", "w"], ["a"], strides=[2, 2], pads=[2, 2, 2, 2], dilations=[2, 2]
            ),
            helper.make_node("Conv", ["x", "w"], ["b"], strides=[1, 1], dilations=[2, 2]),
        ],
        {"x": (TensorProto.FLOAT, [1, 4, 9, 9])},
        {"a": TensorProto.FLOAT, "b": TensorProto.FLOAT},
        {"w": random(8, 4, 3, 3)},
    )


def convolution_in_a_function() -> Any:
    """The layer of `convolution()` as exporters of modules write it: a function, called once."""
    plain = convolution()
    opsets = [helper.make_opsetid("", OPSET)]
    layer = helper.make_function("ours", "Layer", ["x", "w"], ["y"], list(plain.graph.node), opsets)
    model = model_of(
        [helper.make_node("Layer", ["x", "w"], ["y"], domain="ours")],
        {"x": (TensorProto.FLOAT, [1, 4, 12, 12])},
        {"y": TensorProto.FLOAT},
        {"w": random(8, 4, 3, 3)},
        imports=(("", OPSET), ("ours", 1)),
    )
    model.functions.append(layer)
    return model


def residual(adds: int = 1, *, stride: int = 1) -> Any:
    """A convolution, so many additions of other inputs, and a relu: one program."""
    extent = 9 // stride + 1
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["s0"], pads=[1, 1, 1, 1], strides=[stride] * 2),
        *(helper.make_node("Add", [f"s{i}", f"r{i}"], [f"s{i + 1}"]) for i in range(adds)),
        helper.make_node("Relu", [f"s{adds}"], ["y"]),
    ]
    inputs = {"x": (TensorProto.FLOAT, [1, 4, 10, 10])}
    for i in range(adds):
        inputs[f"r{i}"] = (TensorProto.FLOAT, [1, 8, extent, extent])
    return model_of(nodes, inputs, {"y": TensorProto.FLOAT}, {"w": random(8, 4, 3, 3)})


def alike() -> Any:
    """Operators that differ from their neighbours in one thing only: the order of inputs, one
    input taken twice, a number, a shape."""
    calls = [
        ("Sub", ["x", "y"]),
        ("Sub", ["y", "x"]),
        ("Mul", ["x", "y"]),
        ("Mul", ["x", "x"]),
        ("Mul", ["y", "x"]),
        ("Add", ["x", "one"]),
        ("Add", ["y", "one"]),
        ("Add", ["x", "two"]),
        ("Add", ["two", "x"]),
        ("Where", ["mask", "x", "y"]),
        ("Where", ["mask", "y", "x"]),
        ("Where", ["mask", "x", "two"]),
        ("Reshape", ["x", "six_four"]),
        ("Reshape", ["y", "six_four"]),
        ("Reshape", ["x", "two_twelve"]),
    ]
    return model_of(
        [helper.make_node(op, inputs, [f"r{n}"]) for n, (op, inputs) in enumerate(calls)],
        {
            "x": (TensorProto.FLOAT, [4, 6]),
            "y": (TensorProto.FLOAT, [4, 6]),
            "mask": (TensorProto.BOOL, [4, 6]),
        },
        {f"r{n}": TensorProto.FLOAT for n in range(len(calls))},
        {
            "one": np.float32(1),
            "two": np.float32(2),
            "six_four": np.array([6, 4]),
            "two_twelve": np.array([2, 12]),
        },
    )


def averaged() -> Any:
    """Averages over what lies within a padded image: fewer numbers at its border."""
    return model_of(
        [helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])],
        {"x": (TensorProto.FLOAT, [1, 2, 6, 6])},
        {"y": TensorProto.FLOAT},
    )


def scaled(factor: float = 2.0) -> Any:
    """A relu and a multiplication by a number that training moves."""
    return model_of(
        [
            helper.make_node("Relu", ["x"], ["r"]),
            helper.make_node("Mul", ["r", "factor"], ["y"]),
        ],
        {"x": (TensorProto.FLOAT, [4, 6])},
        {"y": TensorProto.FLOAT},
        {"factor": np.float32(factor)},
    )


def dequantised(zero: int = 3) -> Any:
    """Bytes made floats again: the zero point is an integer in the program."""
    return model_of(
        [helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["y"])],
        {"x": (TensorProto.UINT8, [4, 6])},
        {"y": TensorProto.FLOAT},
        {"scale": np.float32(0.5), "zero": np.uint8(zero)},
    )


def cast_twice() -> Any:
    """A relu, made half precision and back: one program with one operator twice."""
    return model_of(
        [
            helper.make_node("Relu", ["x"], ["r"]),
            helper.make_node("Cast", ["r"], ["h"], to=TensorProto.FLOAT16),
            helper.make_node("Cast", ["h"], ["y"], to=TensorProto.FLOAT),
        ],
        {"x": (TensorProto.FLOAT, [4, 6])},
        {"y": TensorProto.FLOAT},
    )


def branches(order: Sequence[int] | None = None, *, prefix: str = "") -> Any:
    """Branches that know nothing of each other, in any order and under any names."""
    one_of_each = [
        ("Conv", ["x", "w"], {"strides": [1, 1]}),
        ("Conv", ["x", "w"], {"strides": [2, 2]}),
        ("Relu", ["a"], {}),
        ("Relu", ["a"], {}),
        ("Unsqueeze", ["a", "first"], {}),
        ("Reshape", ["a", "shape"], {}),
        ("Flatten", ["a"], {}),
        ("Relu", ["x"], {}),
    ]
    numbers = range(len(one_of_each)) if order is None else order
    names = {"x": f"{prefix}x", "a": f"{prefix}a"}
    nodes = [
        helper.make_node(
            operator,
            [names.get(name, name) for name in inputs],
            [f"{prefix}y{number}"],
            name=f"{prefix}n{number}",
            **attributes,
        )
        for number in numbers
        for operator, inputs, attributes in [one_of_each[number]]
    ]
    return model_of(
        nodes,
        {
            names["x"]: (TensorProto.FLOAT, [1, 4, 12, 12]),
            names["a"]: (TensorProto.FLOAT, [5, 6]),
        },
        {node.output[0]: TensorProto.FLOAT for node in nodes},
        {
            "w": random(8, 4, 3, 3),
            "first": np.array([0]),
            "shape": np.array([1, 5, 6]),
        },
    )


def many_relus(count: int = 8) -> Any:
    """Relus of different shapes: TVM names the seventh of them relu6."""
    nodes = [helper.make_node("Relu", [f"x{i}"], [f"y{i}"]) for i in range(count)]
    inputs = {f"x{i}": (TensorProto.FLOAT, [2, i + 3]) for i in range(count)}
    return model_of(nodes, inputs, {f"y{i}": TensorProto.FLOAT for i in range(count)})


def repeated_relu(times: int) -> Any:
    """One relu, called again and again on inputs of one shape."""
    nodes = [helper.make_node("Relu", [f"x{i}"], [f"y{i}"]) for i in range(times)]
    inputs = {f"x{i}": (TensorProto.FLOAT, [2, 3]) for i in range(times)}
    return model_of(nodes, inputs, {f"y{i}": TensorProto.FLOAT for i in range(times)})


def convolution_after_others() -> Any:
    """The layer of `convolution()` behind two others, which take the first numbers."""
    return model_of(
        [
            helper.make_node("Conv", ["x", "v"], ["a"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("MaxPool", ["b"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
            helper.make_node("Conv", ["p", "w"], ["c"], strides=[1, 1], kernel_shape=[3, 3]),
            helper.make_node("Relu", ["c"], ["y"]),
        ],
        {"x": (TensorProto.FLOAT, [1, 3, 24, 24])},
        {"y": TensorProto.FLOAT},
        {"v": random(4, 3, 3, 3, seed=5), "w": random(8, 4, 3, 3, seed=6)},
    )


def gather() -> Any:
    """An embedding of 100 rows, read by int64 indices."""
    return model_of(
        [
            helper.make_node("Gather", ["table", "rows"], ["g"], axis=0),
            helper.make_node("Relu", ["g"], ["y"]),
        ],
        {"rows": (TensorProto.INT64, [5])},
        {"y": TensorProto.FLOAT},
        {"table": random(100, 8)},
    )


def largest_three() -> Any:
    """TopK, which TVM calls a library for."""
    return model_of(
        [helper.make_node("TopK", ["x", "k"], ["y", "where"])],
        {"x": (TensorProto.FLOAT, [5, 20])},
        {"y": TensorProto.FLOAT},
        {"k": np.array([3])},
    )


def quantised() -> Any:
    """A QDQ int8 model: convolution and dense layer between quantise and dequantise nodes."""
    nodes = [
        *_quantise("x", "x_scale", "zero"),
        helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["w_dq"], axis=0),
        helper.make_node("Conv", ["x_dq", "w_dq"], ["c"], kernel_shape=[3, 3]),
        helper.make_node("Relu", ["c"], ["r"]),
        *_quantise("r", "r_scale", "zero"),
        helper.make_node("Flatten", ["r_dq"], ["f"]),
        helper.make_node("DequantizeLinear", ["d", "d_scale", "zero"], ["d_dq"]),
        helper.make_node("MatMul", ["f", "d_dq"], ["y"]),
    ]
    generator = np.random.default_rng(1)
    weights = {
        "w": generator.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8),
        "w_scale": np.full(4, 0.01, np.float32),
        "w_zero": np.zeros(4, np.int8),
        "d": generator.integers(-127, 128, (144, 10)).astype(np.int8),
        "d_scale": np.float32(0.02),
        "x_scale": np.float32(0.03),
        "r_scale": np.float32(0.05),
        "zero": np.int8(0),
    }
    return model_of(
        nodes,
        {"x": (TensorProto.FLOAT, [1, 3, 8, 8])},
        {"y": TensorProto.FLOAT},
        {name: np.asarray(value) for name, value in weights.items()},
    )


def _quantise(name: str, scale: str, zero: str) -> list[Any]:
    return [
        helper.make_node("QuantizeLinear", [name, scale, zero], [f"{name}_q"]),
        helper.make_node("DequantizeLinear", [f"{name}_q", scale, zero], [f"{name}_dq"]),
    ]


def integer_dense() -> Any:
    """An int8 dense layer that accumulates in int32, as quantised models export it."""
    return model_of(
        [helper.make_node("MatMulInteger", ["x", "w"], ["y"])],
        {"x": (TensorProto.INT8, [16, 64])},
        {"y": TensorProto.INT32},
        {"w": np.random.default_rng(2).integers(-127, 128, (64, 32)).astype(np.int8)},
    )


def constant_of(elements: int) -> Any:
    """A small file that says to make a tensor of so many elements, and add it up."""
    return model_of(
        [
            helper.make_node("ConstantOfShape", ["s"], ["c"]),
            helper.make_node("ReduceSum", ["c"], ["r"], keepdims=0),
            helper.make_node("Add", ["x", "r"], ["y"]),
        ],
        {"x": (TensorProto.FLOAT, [4])},
        {"y": TensorProto.FLOAT},
        {"s": np.array([elements], "int64")},
    )


def half_precision() -> Any:
    """An fp16 model whose Reshape takes a shape that is computed from the input's."""
    return model_of(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3]),
            helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("Shape", ["r"], ["s"]),
            helper.make_node("Gather", ["s", "first"], ["n"], axis=0),
            helper.make_node("Concat", ["n", "rest"], ["t"], axis=0),
            helper.make_node("Reshape", ["r", "t"], ["f"]),
            helper.make_node("MatMul", ["f", "d"], ["y"]),
        ],
        {"x": (TensorProto.FLOAT16, ["batch", 3, 8, 8])},
        {"y": TensorProto.FLOAT16},
        {
            "w": random(4, 3, 3, 3, dtype="float16"),
            "d": random(144, 10, seed=1, dtype="float16"),
            "first": np.array([0]),
            "rest": np.array([-1]),
        },
    )


def with_unsupported_operators() -> Any:
    """Two operators without an importer, one of them in a branch, between supported ones."""
    branch = helper.make_graph(
        [helper.make_node("Det", ["x"], ["d"])],
        "branch",
        [],
        [helper.make_tensor_value_info("d", TensorProto.FLOAT, None)],
    )
    other = helper.make_graph(
        [helper.make_node("ReduceSum", ["x"], ["e"], keepdims=0)],
        "other",
        [],
        [helper.make_tensor_value_info("e", TensorProto.FLOAT, None)],
    )
    return model_of(
        [
            helper.make_node("If", ["flag"], ["y"], then_branch=branch, else_branch=other),
            helper.make_node("StringNormalizer", ["words"], ["z"]),
        ],
        {
            "x": (TensorProto.FLOAT, [3, 3]),
            "flag": (TensorProto.BOOL, []),
            "words": (TensorProto.STRING, [2]),
        },
        {"y": TensorProto.FLOAT, "z": TensorProto.STRING},
    )


def with_padding_from_an_input() -> Any:
    """A Pad whose amounts are only known when the model runs."""
    return model_of(
        [helper.make_node("Pad", ["x", "pads"], ["y"])],
        {"x": (TensorProto.FLOAT, [3, 3]), "pads": (TensorProto.INT64, [4])},
        {"y": TensorProto.FLOAT},
    )


def save_retrained(original: Path, path: Path, *, factor: float) -> Path:
    """A model with every float32 weight and constant multiplied, as if it had been trained on."""
    model = onnx.load(str(original))
    constants = [
        attribute.t
        for node in model.graph.node
        if node.op_type == "Constant"
        for attribute in node.attribute
        if attribute.name == "value"
    ]
    for tensor in [*model.graph.initializer, *constants]:
        if tensor.data_type == TensorProto.FLOAT:
            moved = numpy_helper.to_array(tensor) * np.float32(factor)
            tensor.CopyFrom(numpy_helper.from_array(moved, tensor.name))
    return save(path, model)


def save_with_external_data(path: Path, location: str, *, write: bool = True) -> Path:
    """A model whose weights lie in another file; `location` is written as it is."""
    model = convolution()
    if write:
        data = numpy_helper.to_array(model.graph.initializer[0]).tobytes()
        (path.parent / location).write_bytes(data)
    tensor = model.graph.initializer[0]
    length = len(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
    path.write_bytes(model.SerializeToString())
    return path


SCRIPTED = {
    "quantised": quantised,
    "integer_dense": integer_dense,
    "half_precision": half_precision,
    "gather": gather,
}


if __name__ == "__main__":
    for name, make in SCRIPTED.items():
        print(save(Path(sys.argv[1]) / f"{name}.onnx", make()))
