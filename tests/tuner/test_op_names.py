"""Operators named without the numbers that TVM gives functions, and with the digits they have."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tvm import relax

from tunebook.cache.targets import Target
from tunebook.tuner.imported_model import ImportedModel
from tunebook.tuner.op_names import operator_name
from tunebook.tuner.prepare import prepare
from tunebook.tuner.split import split


@pytest.mark.parametrize(
    ("function", "operator", "name"),
    [
        ("conv2d", "relax.nn.conv2d", "conv2d"),
        ("conv2d7", "relax.nn.conv2d", "conv2d"),
        ("conv1d12", "relax.nn.conv1d", "conv1d"),
        ("max_pool2d1", "relax.nn.max_pool2d", "max_pool2d"),
        ("add4", "relax.add", "add"),
        # The seventh relu, and the operator relu6.
        ("relu6", "relax.nn.relu", "relu"),
        ("relu6", "relax.nn.relu6", "relu6"),
        ("relu61", "relax.nn.relu6", "relu6"),
        # The third log, and the operator log2.
        ("log2", "relax.log", "log"),
        ("log2", "relax.log2", "log2"),
        ("log22", "relax.log2", "log2"),
        ("exp2", "relax.exp2", "exp2"),
        # Named after the function that was written, not after the operator.
        ("tir_clip3", "relax.clip", "clip"),
        ("tir_exp", "relax.exp", "exp"),
        ("reshape2", "relax.flatten", "reshape"),
        ("cast1", "relax.astype", "cast"),
        ("transpose", "relax.permute_dims", "transpose"),
        # Written by the front end, so that no operator is known.
        ("atan2", None, "atan2"),
        ("atan23", None, "atan2"),
        ("conv2d3", None, "conv2d"),
        ("max_pool2d", None, "max_pool2d"),
        ("te_gather_nd1", None, "gather_nd"),
        ("somebodys_kernel4", None, "somebodys_kernel"),
    ],
)
def test_a_functions_number_goes_and_an_operators_digits_stay(
    function: str, operator: str | None, name: str
) -> None:
    assert operator_name(function, operator) == name


def test_the_seventh_relu_of_a_model_is_a_relu(
    read: Callable[..., ImportedModel], host: Target
) -> None:
    tasks = split(prepare(read("many_relus", count=8), host))
    assert [task.workload.key.op for task in tasks] == ["relu"] * 8


def test_fused_operators_keep_their_order(read: Callable[..., ImportedModel], host: Target) -> None:
    prepared = prepare(read("quantised"), host)
    assert set(prepared.op_names.values()) >= {"conv2d+relu+quantize+dequantize"}


def test_an_operators_own_digits_stay_in_a_model(host: Target) -> None:
    builder = relax.BlockBuilder()
    inputs = [relax.Var(f"x{i}", relax.TensorType((2, i + 3), "float32")) for i in range(3)]
    with builder.function("main", inputs):
        with builder.dataflow():
            results = [builder.emit(relax.op.atan2(one, one)) for one in inputs]
            output = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(output)
    model = ImportedModel("made here", builder.get(), "", "", (), ())
    assert [task.workload.key.op for task in split(prepare(model, host))] == ["atan2"] * 3
