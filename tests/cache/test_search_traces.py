"""Every trace that MetaSchedule's search for CPUs writes passes the check, generated anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

tvm = pytest.importorskip("tvm", reason="needs TVM")

from tvm import te, topi  # noqa: E402

from tunebook.cache.targets import canonical_target  # noqa: E402
from tunebook.cache.untrusted.traces import ANNOTATIONS, INSTRUCTIONS, check_trace  # noqa: E402
from tunebook.tuner.traces.trace_steps import trace_text  # noqa: E402
from tunebook.tuner.tvm_compat import load_cpu_intrinsics  # noqa: E402

TARGETS = {
    "x86-64": "llvm -mtriple=x86_64-linux-gnu -mcpu=znver2 -num-cores=2",
    "x86-64 with vnni": "llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake -num-cores=2",
    "cortex-a72": "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -num-cores=4",
    "cortex-a76": "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4",
}


def convolution() -> list[Any]:
    x, w, b = (te.placeholder(s) for s in ((1, 16, 14, 14), (32, 16, 3, 3), (1, 32, 1, 1)))
    return [x, w, b, topi.nn.relu(topi.add(topi.nn.conv2d_nchw(x, w, 1, 1, 1), b))]


def int8_dense(left: str, right: str) -> Callable[[], list[Any]]:
    def dense() -> list[Any]:
        x = te.placeholder((64, 64), dtype=left)
        w = te.placeholder((64, 64), dtype=right)
        k = te.reduce_axis((0, 64))
        out = te.compute(
            (64, 64),
            lambda i, j: te.sum(x[i, k].astype("int32") * w[j, k].astype("int32"), axis=k),
        )
        return [x, w, out]

    return dense


def softmax() -> list[Any]:
    x = te.placeholder((8, 100))
    return [x, topi.nn.softmax(topi.exp(x))]


def pooling() -> list[Any]:
    x = te.placeholder((1, 16, 14, 14))
    return [x, topi.nn.pool2d(x, (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), "max")]


def long_sum() -> list[Any]:
    x = te.placeholder((2, 10_000))
    return [x, topi.sum(x, axis=1)]


PROGRAMS: dict[str, Callable[[], list[Any]]] = {
    "convolution": convolution,
    "u8s8 dense": int8_dense("uint8", "int8"),
    "s8s8 dense": int8_dense("int8", "int8"),
    "softmax": softmax,
    "pooling": pooling,
    "sum": long_sum,
}


def traces(target: str, program: Callable[[], list[Any]]) -> list[str]:
    from tvm.s_tir import meta_schedule as ms

    load_cpu_intrinsics()
    canonical = canonical_target(target)
    context = ms.TuneContext(
        mod=te.create_prim_func(program()),
        target=tvm.target.Target(
            {
                "kind": canonical.kind,
                "mtriple": canonical.mtriple,
                "mcpu": canonical.mcpu,
                "num-cores": canonical.num_cores,
            }
        ),
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        rand_state=1,
        num_threads=1,
    )
    spaces = context.generate_design_space()
    context.search_strategy.pre_tuning(100, 3 * len(spaces), spaces, None, None)
    found = context.generate_measure_candidates() or []
    return [trace_text(one) for one in (*spaces, *(candidate.sch for candidate in found))]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("target", TARGETS)
def test_what_the_search_writes_is_trusted(target: str, program: str) -> None:
    found = traces(TARGETS[target], PROGRAMS[program])
    assert found
    for trace in found:
        check_trace(trace)


def test_every_listed_instruction_is_one_of_this_tvm() -> None:
    from tvm.s_tir.schedule import InstructionKind

    for kind in INSTRUCTIONS:
        InstructionKind.get(kind)


def test_no_listed_annotation_imports_code() -> None:
    assert not [key for key in ANNOTATIONS if "import" in key]


def test_vnni_and_sdot_are_among_the_traces() -> None:
    assert "vnni" in "".join(traces(TARGETS["x86-64 with vnni"], PROGRAMS["u8s8 dense"]))
    assert "sdot" in "".join(traces(TARGETS["cortex-a76"], PROGRAMS["s8s8 dense"]))
