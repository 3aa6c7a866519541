"""A trace taken apart into steps, so that it can be changed and applied to another program."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm
from tvm import tirx
from tvm.s_tir import Schedule, Trace
from tvm.s_tir.schedule import Instruction, InstructionKind, LoopRV, SBlockRV

from tunebook.cache.untrusted.traces import check_trace
from tunebook.tuner.traces.blocks import with_names_of

TILINGS = frozenset({"SamplePerfectTile", "SamplePartitionedTile"})
_POSTPROCS_BEGIN = "EnterPostproc"


@dataclass(frozen=True)
class Step:
    """One instruction with its decision (None: it has none, or is to be drawn).

    `inputs`, `attributes` and `outputs` are spelt as in the trace's JSON: `b0`, `l3` and `v5` are
    what earlier steps gave, a text is quoted once more, `None` is a factor left open.
    """

    kind: str
    inputs: tuple[Any, ...]
    attributes: tuple[Any, ...]
    outputs: tuple[str, ...]
    decision: Any = None


def steps_of(trace: str, module: Any = None) -> tuple[Step, ...]:
    """The steps of a trace's JSON text, with the names that blocks have in `module`, if given.

    Raises UntrustedTraceError for one that is refused.
    """
    check_trace(trace)
    instructions, decisions = json.loads(trace)
    if module is not None:
        instructions = with_names_of(module, instructions)
    decided = dict(map(tuple, decisions))
    return tuple(
        Step(kind, tuple(inputs), tuple(attributes), tuple(outputs), decided.get(number))
        for number, (kind, inputs, attributes, outputs) in enumerate(instructions)
    )


def without_postprocs(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps up to where the postprocessors of the recorded target began."""
    for number, step in enumerate(steps):
        if step.kind == _POSTPROCS_BEGIN:
            return tuple(steps[:number])
    return tuple(steps)


def with_limits(steps: Sequence[Step], limits: Mapping[str, int]) -> tuple[Step, ...]:
    """The steps with the values of these annotations replaced (how many loops run in parallel)."""
    return tuple(
        replace(step, inputs=(step.inputs[0], limits[step.attributes[0]]))
        if step.kind == "Annotate" and step.attributes[0] in limits
        else step
        for step in steps
    )


def apply_steps(
    steps: Sequence[Step],
    schedule: Schedule,
    decide: Callable[[Step, int], Any],
) -> None:
    """Applies steps to a schedule; raises whatever TVM does where one does not fit.

    `decide` gives another decision for each step that decided on a tile, from the step and the
    extent of its loop, where that is a constant.
    """
    numbered = iter(steps)

    def provide(_: Any, inputs: Any, __: Any, decision: Any) -> Any:
        step = next(numbered)
        if step.kind not in TILINGS or step.decision is None:
            return decision
        extent = _extent(schedule, inputs[0])
        return decision if extent is None else decide(step, extent)

    # TVM asks for every step, in order: so the steps can be counted off beside it.
    tvm_trace(steps).apply_to_schedule(schedule, False, provide)


def trace_text(schedule: Schedule) -> str:
    """The JSON text of all that was done to a schedule."""
    return json.dumps(_plain(schedule.trace.as_json()))


def tvm_trace(steps: Iterable[Step]) -> Trace:
    """TVM's form of steps, which it reads from JSON only together with the program they are for."""
    variables: dict[str, Any] = {"None": None}
    instructions = []
    decisions = {}
    for step in steps:
        outputs = [_VARIABLES[name[0]]() for name in step.outputs]
        instruction = Instruction(
            InstructionKind.get(step.kind),
            [_input(value, variables) for value in step.inputs],
            list(step.attributes),
            outputs,
        )
        variables.update(zip(step.outputs, outputs, strict=True))
        instructions.append(instruction)
        if step.decision is not None:
            decisions[instruction] = step.decision
    return Trace(instructions, decisions)


_VARIABLES: dict[str, Callable[[], Any]] = {
    "b": SBlockRV,
    "l": LoopRV,
    "v": lambda: tirx.Var("v", "int32"),
}


def _input(value: Any, variables: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_input(one, variables) for one in value]
    if not isinstance(value, str):
        return value
    if value.startswith("{"):
        return tvm.ir.load_json(value)  # an index map
    if value.startswith('"'):
        return value[1:-1]
    return variables[value]


def _extent(schedule: Schedule, loop: Any) -> int | None:
    extent = schedule.get(loop).extent
    return int(extent) if isinstance(extent, tirx.IntImm) else None


def _plain(value: Any) -> Any:
    """TVM's containers as Python's, since `json` knows only these."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, dict) or hasattr(value, "items"):
        return {str(key): _plain(one) for key, one in value.items()}
    if hasattr(value, "__iter__"):
        return [_plain(one) for one in value]
    return value.value
