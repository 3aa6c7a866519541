"""Splitting a prepared model into its tasks, each with its key and how often the model calls it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from tunebook.cache.buffers import buffers_text
from tunebook.cache.keys import WorkloadKey
from tunebook.cache.records import Model, Task, Workload
from tunebook.tuner.compiler import compiler_text
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.llvm_targets import target_features
from tunebook.tuner.splitting.likeness import likeness_of
from tunebook.tuner.splitting.op_names import Operators
from tunebook.tuner.splitting.prepare import PreparedModule
from tunebook.tuner.splitting.program import arguments_of, flops_of
from tunebook.tuner.tvm_compat import normalized_module


def split(prepared: PreparedModule, *, with_tir: bool = True) -> tuple[Task, ...]:
    """The tasks of a prepared model, in the order of their keys; see `split_model`."""
    tasks = [Task(_workload(one, with_tir), one.weight) for one in _programs(prepared)]
    return tuple(sorted(tasks, key=lambda task: task.workload.key))


def split_model(prepared: PreparedModule, *, with_tir: bool = True) -> Model:
    """The model as records hold it: digest, shapes, target, compiler, choices and tasks.

    Writing the programs' TIR takes as long as all the rest; whoever only looks up does without.
    Such a model cannot be stored.
    """
    return Model(
        digest=prepared.model.digest,
        shapes=prepared.model.shapes,
        target=str(prepared.target),
        compiler=compiler_text(),
        choices=str(prepared.choices),
        tasks=split(prepared, with_tir=with_tir),
        target_features=target_features(prepared.target),
    )


def normalized(function: Any) -> Any:
    """A function as the module that MetaSchedule makes of it, `main` its only function: by itself
    it hashes otherwise in each model."""
    return normalized_module(function)


@dataclass
class _Program:
    """A normalised module, the operators of the functions that became it, and their calls."""

    module: Any
    hash: str
    operators: set[Operators] = field(default_factory=set)
    weight: int = 0


def _programs(prepared: PreparedModule) -> list[_Program]:
    """What MetaSchedule's extract_tasks gives, and which functions each task stands for: it names
    the one that is called first, and the order of a model's nodes must not make a key."""
    by_function: dict[str, _Program] = {}
    by_hash: dict[str, _Program] = {}
    for variable in _called(prepared.module):
        name = variable.name_hint
        if name not in by_function:
            module = normalized(prepared.module[variable])
            program = _Program(module, module_hash(module))
            by_function[name] = by_hash.setdefault(program.hash, program)
            by_function[name].operators.add(prepared.operators[name])
        by_function[name].weight += 1
    return list(by_hash.values())


def _called(module: Any) -> Iterator[Any]:
    """The functions of a module that it calls, once for each call."""
    call_tir = tvm.ir.Op.get("relax.call_tir")
    for function in module.functions.values():
        if isinstance(function, relax.Function):
            calls: list[Any] = []
            tvm_ffi.structural_walk(function.body, (relax.Call, calls.append))
            yield from (call.args[0] for call in calls if call.op.same_as(call_tir))


def _workload(program: _Program, with_tir: bool) -> Workload:
    # Of operators that come to the same program, always the first by name.
    operators = min(program.operators)
    key = WorkloadKey(
        op=operators.names,
        buffers=buffers_text(arguments_of(program.module)),
        compiler=compiler_text(),
        hash=program.hash,
    )
    return Workload(
        key,
        tvm.ir.save_json(program.module) if with_tir else "",
        flops_of(program.module),
        likeness_of(program.module, operators.attributes),
    )
