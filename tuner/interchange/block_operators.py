"""The operators of a program, read off its blocks, where no model says what they are.

TVM names a block after what computes it (`conv2d_nchw`, `T_add1`), helpers of an operator after
themselves (`pad_temp`), and what was written as a lambda `compute`. So this is a good guess, which
gives way to what a model says as soon as one is split (Store.save_model).
"""

from __future__ import annotations

import re
from typing import Any

import tvm
from tvm import tirx

from tunebook.tuner.splitting.op_names import known_operator
from tunebook.tuner.splitting.tir_walk import kind, post_order

_LONGEST = 200
_PREFIX = "T_"
_ROOT = "root"
_LAMBDA = "compute"
_REDUCTION = "_red"
_TRANSPOSED = "kernel_transform"
# Of several blocks that an operator is made of, all but the last.
_HELPERS = frozenset(
    {
        "pad_temp",
        "PadInput",
        "data_dilate",
        "data_pad",
        "kernel_transform",
        "pool_sum",
        "adaptive_pool_sum",
        "softmax_maxelem",
        "softmax_exp",
        "softmax_delta",
        "softmax_expsum",
    }
)
_OPERATORS = {
    "conv1d_ncw": "conv1d",
    "conv2d_nchw": "conv2d",
    "conv2d_nhwc": "conv2d",
    "group_conv2d_nchw": "conv2d",
    "group_conv2d_nhwc": "conv2d",
    "conv3d_ncdhw": "conv3d",
    "matmul_NN": "matmul",
    "matmul_NT": "matmul",
    "matmul_TN": "matmul",
    "matmul_TT": "matmul",
    "pool_max": "max_pool2d",
    "pool_avg": "avg_pool2d",
    "adaptive_pool_avg": "adaptive_avg_pool2d",
    "adaptive_pool_max": "adaptive_max_pool2d",
    "softmax_norm": "softmax",
    "concat": "concatenate",
    "resize": "resize2d",
    "quantized": "quantize",
    "dequantized": "dequantize",
    "strided_slice_with_axes": "strided_slice",
    "topk_cpu": "topk",
}


def operators_in(function: Any) -> str:
    """The op text (`conv2d+add+relu`) of a normalised function."""
    found: list[str] = []
    transposed = False
    for block in _blocks(function):
        name = _name(block)
        transposed |= name == _TRANSPOSED
        if name in _HELPERS:
            continue
        operator = _operator(block, name, transposed=transposed)
        if operator == "divide" and found[-1:] == ["sum"] and _divides_by_constant(block):
            found[-1] = "mean"
        else:
            found.append(operator)
    text = "+".join(re.sub(r"\W", "_", one) for one in found)
    return text[:_LONGEST] or "unknown"


def _blocks(function: Any) -> list[Any]:
    blocks = (node for node in post_order(function.body) if kind(node) == "SBlock")
    return [block for block in blocks if block.name_hint != _ROOT]


def _name(block: Any) -> str:
    """The block's name without its number."""
    name = str(block.name_hint).removeprefix(_PREFIX)
    bare = name.rstrip("0123456789")
    listed = (*_OPERATORS, *_HELPERS, _LAMBDA)
    return next((one for one in (name, bare) if one in listed), known_operator(name))


def _operator(block: Any, name: str, *, transposed: bool) -> str:
    if name == _LAMBDA:
        if transposed and block.init is not None:
            return "conv2d_transpose"
        return _lambda(_value(block))
    if name.endswith(_REDUCTION):
        return {"Add": "sum", "Max": "max", "Min": "min"}.get(kind(_value(block)), name)
    return _OPERATORS.get(name, name)


def _lambda(value: Any) -> str:
    """The operator that is written as a lambda, by what it computes."""
    if isinstance(value, tvm.ir.Call):
        return str(getattr(value.op, "name", "call")).rpartition(".")[2]
    if kind(value) == "Cast":
        return "cast"
    if kind(value) in ("Max", "Min"):
        inner = {kind(value.a), kind(value.b)}
        if inner & {"Max", "Min"}:
            return "clip"
        if kind(value) == "Max" and "FloatImm" in inner | {kind(value.b)}:
            return "relu"
    return "prelu" if kind(value) == "Select" else _LAMBDA


def _value(block: Any) -> Any:
    """What a block stores; None where it is no single store."""
    return block.body.value if isinstance(block.body, tirx.BufferStore) else None


def _divides_by_constant(block: Any) -> bool:
    value = _value(block)
    return kind(value) == "Div" and kind(value.b) in ("FloatImm", "IntImm")
