"""Programs of ours, which measure a board and no model."""

from __future__ import annotations

import tvm

from tunebook.cache.keys import WorkloadKey
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.splitting.program import BufferSpec, Program


def own_program(
    text: str, name: str, read: tuple[int, ...], written: tuple[int, ...], operations: float
) -> Program:
    """The program of a prim_func `main` as text (the decorator takes seconds: tvm_compat), which
    reads one float32 buffer, writes another, and needs so many operations."""
    module = tvm.ir.IRModule({"main": tvm.script.from_source(text)})
    buffers = (BufferSpec("float32", read, False), BufferSpec("float32", written, True))
    key = WorkloadKey(name, "", "", module_hash(module))
    return Program(key, tvm.ir.save_json(module), buffers, operations, reduction_length=1)
