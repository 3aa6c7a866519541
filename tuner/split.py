"""Splitting a prepared model into its tasks, each with its key and how often the model calls it."""

from __future__ import annotations

from typing import Any

import tvm
from tvm.s_tir.meta_schedule.relax_integration import extract_tasks

from tunebook.cache.buffers import buffers_text
from tunebook.cache.keys import WorkloadKey
from tunebook.cache.records import Model, Task, Workload
from tunebook.tuner.compiler import compiler_text
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.llvm_targets import tvm_target
from tunebook.tuner.prepare import PreparedModule
from tunebook.tuner.program import buffers_of, flops_of


def split(prepared: PreparedModule) -> tuple[Task, ...]:
    """The tasks of a prepared model, in the order of their keys."""
    target = tvm_target(prepared.target)
    weights: dict[WorkloadKey, int] = {}
    workloads: dict[WorkloadKey, Workload] = {}
    for extracted in extract_tasks(prepared.module, target):
        # Dispatched modules are normalised; the function itself hashes otherwise in each model.
        workload = _workload(extracted.dispatched[0], prepared.op_names[extracted.task_name])
        workloads[workload.key] = workload
        weights[workload.key] = weights.get(workload.key, 0) + int(extracted.weight)
    return tuple(Task(workloads[key], weights[key]) for key in sorted(weights))


def split_model(prepared: PreparedModule) -> Model:
    """The model as records hold it: digest, shapes, target, compiler, choices and tasks."""
    return Model(
        digest=prepared.model.digest,
        shapes=prepared.model.shapes,
        target=str(prepared.target),
        compiler=compiler_text(),
        choices=str(prepared.choices),
        tasks=split(prepared),
    )


def _workload(module: Any, op: str) -> Workload:
    key = WorkloadKey(
        op=op,
        buffers=buffers_text(buffers_of(module)),
        compiler=compiler_text(),
        hash=module_hash(module),
    )
    return Workload(key, tvm.ir.save_json(module), flops_of(module))
