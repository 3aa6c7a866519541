"""Programs to build and measure, and schedules of them as the search finds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import te
from tvm.s_tir import meta_schedule as ms
from tvm_ffi import get_global_func

from tunebook.cache.keys import WorkloadKey
from tunebook.cache.records import Candidate, Workload
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.llvm_targets import tvm_target
from tunebook.tuner.splitting.program import Program, describe
from tunebook.tuner.traces.trace_steps import trace_text
from tunebook.tuner.tvm_compat import load_cpu_intrinsics

SIZE = 64


def program_of(*tensors: te.Tensor, flops: float = 1e6) -> Program:
    """The program of a computation, described as a model's task is."""
    normalize = get_global_func("tvm.s_tir.meta_schedule.normalize_mod")
    mod = normalize(te.create_prim_func(list(tensors)))
    key = WorkloadKey("test", "", "tvm", module_hash(mod))
    return describe(Workload(key, tvm.ir.save_json(mod), flops))


def matmul(dtype: str = "float32", total: str = "float32", size: int = SIZE) -> Program:
    left = te.placeholder((size, size), dtype, "left")
    right = te.placeholder((size, size), dtype, "right")
    k = te.reduce_axis((0, size), "k")
    product = te.compute(
        (size, size),
        lambda i, j: te.sum(left[i, k].astype(total) * right[k, j].astype(total), k),
        "product",
    )
    return program_of(left, right, product, flops=2.0 * size**3)


def dense(size: int = SIZE) -> Program:
    """An int8 layer, its weight packed as TVM's dot product intrinsics read it."""
    data = te.placeholder((size, size), "int8", "data")
    weight = te.placeholder((size // 4, size // 4, 4, 4), "int8", "weight")
    outer, inner = te.reduce_axis((0, size // 4), "outer"), te.reduce_axis((0, 4), "inner")
    product = te.compute(
        (size, size // 4, 4),
        lambda i, j, lane: te.sum(
            data[i, outer * 4 + inner].astype("int32")
            * weight[j, outer, lane, inner].astype("int32"),
            [outer, inner],
        ),
        "product",
    )
    return program_of(data, weight, product, flops=2.0 * size**3)


def unpacked_dense(size: int = SIZE) -> Program:
    """An int8 layer as a model has it, a row of weights for each output."""
    data = te.placeholder((size, size), "int8", "data")
    weight = te.placeholder((size, size), "int8", "weight")
    k = te.reduce_axis((0, size), "k")
    product = te.compute(
        (size, size),
        lambda i, j: te.sum(data[i, k].astype("int32") * weight[j, k].astype("int32"), k),
        "product",
    )
    return program_of(data, weight, product, flops=2.0 * size**3)


def elementwise(operation: Callable[[Any], Any], dtype: str = "float32", size: int = 64) -> Program:
    data = te.placeholder((size,), dtype, "data")
    return program_of(data, te.compute((size,), lambda i: operation(data[i]), "result"))


def candidates_of(program: Program, target: str, count: int = 4) -> list[Candidate]:
    """Schedules as the search finds them, without any learning."""
    load_cpu_intrinsics()
    context = ms.TuneContext(
        mod=tvm.ir.load_json(program.tir),
        target=tvm_target(target),
        space_generator="post-order-apply",
        search_strategy=ms.search_strategy.EvolutionarySearch(
            population_size=8, genetic_num_iters=0, init_min_unmeasured=4
        ),
        rand_state=7,
        num_threads=1,
    )
    spaces = context.generate_design_space()
    database, model = ms.database.MemoryDatabase(), ms.cost_model.RandomModel()
    context.pre_tuning(count, count, spaces, database, model)
    found = [one.sch for one in context.generate_measure_candidates()]
    context.post_tuning()
    return [Candidate(trace_text(one), module_hash(one.mod)) for one in found]
