"""Operators named without the numbers that TVM gives functions, and with the digits they have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tvm import relax

from tunebook.cache.targets import Target
from tunebook.tuner.importing.imported_model import ImportedModel
from tunebook.tuner.splitting.op_names import known_operator
from tunebook.tuner.splitting.prepare import prepare
from tunebook.tuner.splitting.split import split


def model_of(inputs: list[Any], results: list[Any]) -> ImportedModel:
    builder = relax.BlockBuilder()
    with builder.function("main", inputs):
        with builder.dataflow():
            emitted = [builder.emit(result) for result in results]
            output = builder.emit_output(relax.Tuple(emitted))
        builder.emit_func_output(output)
    return ImportedModel("made here", builder.get(), "", "", (), ())


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("atan2", "atan2"),
        ("atan23", "atan2"),
        ("conv2d3", "conv2d"),
        ("max_pool2d", "max_pool2d"),
        ("te_gather_nd1", "gather_nd"),
        ("somebodys_kernel4", "somebodys_kernel"),
    ],
)
def test_of_a_front_ends_function_the_number_goes_and_a_known_operators_digits_stay(
    function: str, name: str
) -> None:
    assert known_operator(function) == name


@pytest.mark.parametrize(
    ("operator", "names"),
    [
        # TVM calls the functions of the third ones log2 and atan22.
        (relax.op.log, ["log"] * 3),
        (lambda x: relax.op.atan2(x, x), ["atan2"] * 3),
        (relax.op.exp, ["exp"] * 3),
        # Named after the function that does it, as TVM does.
        (lambda x: relax.op.clip(x, 0.5, 1.5), ["clip"] * 3),
        (lambda x: relax.op.astype(x, "int32"), ["cast"] * 3),
        (relax.op.permute_dims, ["transpose"] * 3),
        (relax.op.flatten, ["reshape"] * 3),
    ],
    ids=["log", "atan2", "exp", "clip", "astype", "permute_dims", "flatten"],
)
def test_an_operator_keeps_its_digits_and_gets_no_number(
    operator: Callable[[Any], Any], names: list[str], host: Target
) -> None:
    inputs = [relax.Var(f"x{i}", relax.TensorType((2, i + 3), "float32")) for i in range(3)]
    tasks = split(prepare(model_of(inputs, [operator(one) for one in inputs]), host))
    assert [task.workload.key.op for task in tasks] == names


@pytest.mark.parametrize("order", [1, -1], ids=["forwards", "backwards"])
def test_operators_that_come_to_one_program_are_one_task_whichever_comes_first(
    order: int, host: Target
) -> None:
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    results = [
        relax.op.nn.relu(x),
        relax.op.maximum(x, relax.const(0.0, "float32")),
        relax.op.nn.relu6(x),
        relax.op.clip(x, 0.0, 6.0),
    ]
    tasks = split(prepare(model_of([x], results[::order]), host))
    assert [(task.workload.key.op, task.weight) for task in tasks] == [("clip", 2), ("maximum", 2)]


def test_the_seventh_relu_of_a_model_is_a_relu(
    read: Callable[..., ImportedModel], host: Target
) -> None:
    tasks = split(prepare(read("many_relus", count=8), host))
    assert [task.workload.key.op for task in tasks] == ["relu"] * 8


def test_fused_operators_keep_their_order(read: Callable[..., ImportedModel], host: Target) -> None:
    ops = [task.workload.key.op for task in split(prepare(read("quantised"), host))]
    assert "conv2d+relu+quantize+dequantize" in ops
