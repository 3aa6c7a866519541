"""What a function's name tells of its operators."""

from __future__ import annotations

import pytest

from tunebook.tuner.inside_tvm.function_names import op_in_name


@pytest.mark.parametrize(
    ("function", "op"),
    [
        ("fused_conv2d7_add4_relu4", "conv2d+add+relu"),
        ("max_pool2d3", "max_pool2d"),
        ("fused_log2_max_pool2d1_add", "log2+max_pool2d+add"),
        ("fused_fused_conv2d_add_fused_conv2d1_add1", "conv2d+add+conv2d+add"),
        ("fused_tir_sigmoid_multiply3", "sigmoid+multiply"),
        ("te_softmax1", "softmax"),
        ("fused_layer_norm1_strided_slice", "layer_norm+strided_slice"),
        ("no_such_thing12", "no+such+thing"),
        ("fused", "fused"),
        ("12", "12"),
    ],
)
def test_the_longest_operators_that_tvm_knows_are_taken_and_their_numbers_are_not(
    function: str, op: str
) -> None:
    assert op_in_name(function) == op
