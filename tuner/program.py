"""SKETCH. A task's program, with what measuring and verifying it needs."""

from __future__ import annotations

from dataclasses import dataclass

from tunebook.cache.keys import WorkloadKey


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
