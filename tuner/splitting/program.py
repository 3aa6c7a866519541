"""A task's program, with what measuring and verifying it needs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import tvm
from tvm import tirx
from tvm.s_tir.analysis import estimate_tir_flops
from tvm_ffi import structural_walk

from tunebook.cache.errors import ModelError
from tunebook.cache.keys import WorkloadKey
from tunebook.cache.records import Workload
from tunebook.tuner.splitting.index_ranges import index_ranges
from tunebook.tuner.splitting.tir_walk import buffer_identity, kind, loads_in, post_order, stores_in

ENTRY = "main"  # the only function of a normalised module, and of what it is built into
_REDUCTION = 2  # tirx.IterVar.CommReduce


@dataclass(frozen=True)
class BufferSpec:
    """One argument of a program: `dtype` as TVM spells it, static `shape`, `output` when the
    program writes it, and for index buffers (gather) the half-open range [low, high) of values
    that read within bounds."""

    dtype: str
    shape: tuple[int, ...]
    output: bool
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True)
class Program:
    """The normalised function of a workload.

    `tir` is TVM's JSON text of the IRModule, `flops` its arithmetic, `reduction_length` the
    longest chain of accumulations behind one output element (1 without a reduction).
    """

    key: WorkloadKey
    tir: str
    buffers: tuple[BufferSpec, ...]
    flops: float
    reduction_length: int


def describe(workload: Workload) -> Program:
    """What measuring needs to know of a workload, from its stored TIR alone."""
    module = tvm.ir.load_json(workload.tir)
    return Program(
        key=workload.key,
        tir=workload.tir,
        buffers=buffers_of(module),
        flops=workload.flops,
        reduction_length=reduction_length(module),
    )


def arguments_of(module: Any) -> tuple[BufferSpec, ...]:
    """The arguments of a normalised module's function, in order, without the ranges of indices.

    Raises ModelError for a shape that is not fixed.
    """
    function = module[ENTRY]
    written = _written_parameters(function)
    return tuple(
        BufferSpec(str(parameter.dtype), _fixed_shape(parameter), output=position in written)
        for position, parameter in enumerate(function.params)
    )


def buffers_of(module: Any) -> tuple[BufferSpec, ...]:
    """The arguments with the ranges of those that are indices. Raises ModelError."""
    ranges = index_ranges(module[ENTRY])
    return tuple(
        replace(argument, low=ranges[position][0], high=ranges[position][1])
        if position in ranges
        else argument
        for position, argument in enumerate(arguments_of(module))
    )


def flops_of(module: Any) -> float:
    """The floating-point and integer operations of a module; 0.0 where TVM cannot count them."""
    try:
        return max(0.0, float(estimate_tir_flops(module)))
    except Exception:
        # Loops with a data-dependent extent, and calls into libraries.
        return 0.0


def reduction_length(module: Any) -> int:
    """The longest chain of accumulations behind one output element; 1 without a reduction."""
    chains: dict[int, int] = {}
    for block in _leaf_blocks(module[ENTRY]):
        own = _accumulations(block)
        read = (chains.get(buffer_identity(load.source), 0) for load in loads_in(block))
        before = max(read, default=0)
        for store in stores_in(block):
            identity = buffer_identity(store.buffer)
            chains[identity] = max(chains.get(identity, 0), before + own)
    return max(1, *chains.values()) if chains else 1


def _written_parameters(function: Any) -> set[int]:
    stores: list[Any] = []
    structural_walk(function.body, (tirx.BufferStore, stores.append))
    stored = {buffer_identity(store.buffer) for store in stores}
    written = {i for i, p in enumerate(function.params) if buffer_identity(p) in stored}
    # A call into a library writes unseen; results are passed last.
    return written or {len(function.params) - 1}


def _fixed_shape(parameter: Any) -> tuple[int, ...]:
    if not all(isinstance(extent, tirx.IntImm) for extent in parameter.shape):
        raise ModelError(
            f"buffer {parameter.name!r} has shape {list(parameter.shape)}, which depends on the "
            f"data; Tunebook tunes fixed shapes only"
        )
    return tuple(int(extent) for extent in parameter.shape)


def _leaf_blocks(function: Any) -> list[Any]:
    blocks = [node for node in post_order(function.body) if kind(node) == "SBlock"]
    return [b for b in blocks if not any(kind(n) == "SBlock" for n in post_order(b.body))]


def _accumulations(block: Any) -> int:
    """How many values one block adds up for an element; 0 when it adds up nothing."""
    extents = [v.dom.extent for v in block.iter_vars if v.iter_type == _REDUCTION]
    if not extents and _reads_what_it_writes(block):
        # A scan keeps its loops inside the block.
        extents = [node.extent for node in post_order(block.body) if isinstance(node, tirx.For)]
    if not extents or not all(isinstance(extent, tirx.IntImm) for extent in extents):
        return 0
    return math.prod(int(extent) for extent in extents)


def _reads_what_it_writes(block: Any) -> bool:
    written = {buffer_identity(store.buffer) for store in stores_in(block)}
    return any(buffer_identity(load.source) in written for load in loads_in(block))
