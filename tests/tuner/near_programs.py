"""Small programs that are near to each other, and traces that TVM's search writes for them."""

from __future__ import annotations

import json
from typing import Any

import tvm
from tvm import te, topi
from tvm.s_tir import meta_schedule as ms

from tunebook.tuner.llvm_targets import tvm_target
from tunebook.tuner.splitting.split import normalized
from tunebook.tuner.traces.trace_steps import trace_text
from tunebook.tuner.tvm_compat import load_cpu_intrinsics

A72 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -num-cores=4"
A76 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4"
X86 = "llvm -mtriple=x86_64-linux-gnu -mcpu=znver2 -num-cores=2"


def matmul(rows: int, columns: int, inner: int, *, add: bool = False) -> str:
    a, b = te.placeholder((rows, inner)), te.placeholder((inner, columns))
    product = topi.nn.matmul(a, b)
    if not add:
        return _tir(a, b, product)
    bias = te.placeholder((columns,))
    return _tir(a, b, bias, topi.add(product, bias))


def conv(size: int, *, batch: int = 1, stride: int = 1, residual: bool = False) -> str:
    x, w, b = (te.placeholder(s) for s in ((batch, 8, size, size), (16, 8, 3, 3), (1, 16, 1, 1)))
    out = topi.nn.relu(topi.add(topi.nn.conv2d_nchw(x, w, stride, 1, 1), b))
    if not residual:
        return _tir(x, w, b, out)
    other = te.placeholder(out.shape)
    return _tir(x, w, b, other, topi.add(out, other))


def scaled(size: int, factor: float) -> str:
    """A program with a scalar in it, as a retrained model has them."""
    x = te.placeholder((size, size))
    return _tir(x, topi.nn.softmax(topi.multiply(x, tvm.tirx.const(factor, "float32"))))


def row_sums(size: int, name: str) -> str:
    """The means of rows; `name` is that of the variable, of which a block takes its own."""
    x = te.placeholder((size, size), name=name)
    return _tir(x, topi.divide(topi.sum(x, axis=1), float(size)))


def int8_dense(size: int) -> str:
    x, w = (te.placeholder((size, size), dtype="int8") for _ in range(2))
    k = te.reduce_axis((0, size))
    return _tir(
        x,
        w,
        te.compute(
            (size, size),
            lambda i, j: te.sum(x[i, k].astype("int32") * w[j, k].astype("int32"), axis=k),
        ),
    )


def random_traces(tir: str, target: str, count: int, *, seed: int = 1) -> list[str]:
    """Traces with random decisions, written by TVM's own search space and postprocessors."""
    load_cpu_intrinsics()
    context = ms.TuneContext(
        mod=tvm.ir.load_json(tir),
        target=tvm_target(target),
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        rand_state=seed,
        num_threads=1,
    )
    spaces = context.generate_design_space()
    context.search_strategy.pre_tuning(100, count, spaces, None, None)
    found = context.generate_measure_candidates() or []
    return [trace_text(one.sch) for one in found]


def with_tiles(trace: str, *tiles: list[int]) -> str:
    """The trace with these decisions for its tiles, in order."""
    instructions, decisions = json.loads(trace)
    tilings = [n for n, step in enumerate(instructions) if step[0] == "SamplePerfectTile"]
    assert len(tilings) == len(tiles)
    kept = [one for one in decisions if one[0] not in tilings]
    chosen = [[number, tile] for number, tile in zip(tilings, tiles, strict=True)]
    return json.dumps([instructions, sorted(kept + chosen)])


def _tir(*tensors: Any) -> str:
    """As models have them: without the mark that lets a schedule choose the layout of weights."""
    function = te.create_prim_func(list(tensors)).without_attr("layout_free_buffers")
    return str(tvm.ir.save_json(normalized(function)))
