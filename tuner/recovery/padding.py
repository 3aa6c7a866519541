"""Padding of a matrix product whose extents have no useful factors (127), so that tiles fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule

from tunebook.tuner.traces.trace_steps import TILINGS, Step

_STRUCTURE = "meta_schedule.tiling_structure"
# Work on zeros beyond this share wins nothing that a better tile could win back.
_MOST_WASTE = 1.25


class NotPaddable(Exception):
    """Why a program, or a trace's tiling of it, cannot be padded."""


def pad(schedule: Schedule, steps: Sequence[Step]) -> tuple[Step, ...]:
    """Pads the block that a trace tiles so that its inner tiles fit; gives the steps that go on.

    Inputs are copied into buffers with zeros behind them, the result is copied back; TVM allows it
    where every index is a plain variable (`PadEinsum`: matrix products, no convolutions). Raises
    NotPaddable, or whatever TVM does, where it cannot be done or changes nothing.
    """
    block_name, tiles = _tiled_block(steps)
    block = schedule.get_sblock(block_name)
    extents = [_constant(variable.dom.extent) for variable in schedule.get(block).iter_vars]
    if len(tiles) != len(extents):
        raise NotPaddable("its loops are not tiled one by one")
    padding = [_multiple(extent, factors) for extent, factors in zip(extents, tiles, strict=True)]
    if all(extent % multiple == 0 for extent, multiple in zip(extents, padding, strict=True)):
        raise NotPaddable("its tiles fit, or fit no sensible multiple")
    consumers = schedule.get_consumers(block)
    schedule.pad_einsum(block, padding)
    if consumers:
        # The copy back goes into what consumes it, which the trace schedules.
        for copy in schedule.get_consumers(block):
            if schedule.get_consumers(copy):
                schedule.compute_inline(copy)
    # Without a consumer the trace found none; now there is the copy back.
    return tuple(step for step in steps if step.kind != "GetConsumers" or step.outputs)


def _tiled_block(steps: Sequence[Step]) -> tuple[str, list[list[int]]]:
    """The name of the block that is tiled first, and for each of its loops the inner factors."""
    structured = [step for step in steps if step.kind == "Annotate" and _is_structure(step)]
    if len(structured) != 1:
        raise NotPaddable("it has not one tiled block")
    variable = structured[0].inputs[0]
    names = [s.attributes[0] for s in steps if s.kind == "GetSBlock" and s.outputs[0] == variable]
    if not names:
        raise NotPaddable("its tiled block has no name")
    cut = {s.inputs[0]: s.inputs[2] for s in steps if s.kind == "Split" and _is_cut(s)}
    loops = next(s.outputs for s in steps if s.kind == "GetLoops" and s.inputs[0] == variable)
    factors = [[cut[name]] if name in cut else [] for name in loops]
    tilings = [step for step in steps if step.kind in TILINGS]
    if len(tilings) != len(factors) or any(step.decision is None for step in tilings):
        raise NotPaddable("its loops are not tiled one by one")
    return str(names[0]), [
        [*step.decision[1:], *cut] for step, cut in zip(tilings, factors, strict=True)
    ]


def _is_structure(step: Step) -> bool:
    return bool(step.attributes[0] == _STRUCTURE)


def _is_cut(step: Step) -> bool:
    return len(step.inputs) == 3 and isinstance(step.inputs[2], int)


def _multiple(extent: int, inner: Sequence[int]) -> int:
    """Of the products of the innermost factors the largest that pads little; 1 for none."""
    for first in range(len(inner)):
        multiple = math.prod(inner[first:])
        padded = math.ceil(extent / multiple) * multiple
        if padded <= extent * _MOST_WASTE:
            return multiple
    return 1


def _constant(extent: Any) -> int:
    if not isinstance(extent, tirx.IntImm):
        raise NotPaddable("its extents depend on the data")
    return int(extent)
