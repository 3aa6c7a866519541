"""Traces that use a tensor intrinsic: which, and the same schedule with another or with none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tunebook.tuner.traces.trace_steps import TILINGS, Step

_ANNOTATIONS = ("meta_schedule.auto_tensorize", "meta_schedule.auto_tensorize_init")
# What TVM's rule puts between the block and its blockized form (TileWithTensorIntrin).
_TILING_FOR_INTRINSIC = frozenset({"GetLoops", "Split", "Reorder"})


def intrinsics_of(steps: Sequence[Step]) -> frozenset[str]:
    """The intrinsics that a trace names, in annotations or in `Tensorize` itself."""
    named = {step.inputs[1].strip('"') for step in steps if _names_intrinsic(step)}
    named |= {str(step.attributes[0]) for step in steps if step.kind == "Tensorize"}
    return frozenset(named - {""})


def with_intrinsic(steps: Sequence[Step], old: str, new: str) -> tuple[Step, ...]:
    """The same trace with one intrinsic exchanged for one of the same shape."""
    quoted = f'"{new}"'
    return tuple(
        replace(step, inputs=(step.inputs[0], quoted))
        if _names_intrinsic(step) and step.inputs[1] == f'"{old}"'
        else step
        for step in steps
    )


def untensorised(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The same tiling without an intrinsic.

    The tile that the intrinsic would compute (4 of 64 columns) goes back into the loops it was
    taken from, the innermost factor of their tiles becoming as much larger; where the trace has
    not the form that TVM's rule gives it, only the annotations go, and the tile stays a block of
    its own.
    """
    tile = _tile_of(steps)
    if tile is not None:
        steps = _put_back(steps, tile)
    return tuple(
        step for step in steps if step.kind != "Annotate" or step.attributes[0] not in _ANNOTATIONS
    )


def _names_intrinsic(step: Step) -> bool:
    return (
        step.kind == "Annotate"
        and step.attributes[0] in _ANNOTATIONS
        and isinstance(step.inputs[1], str)
        and step.inputs[1].startswith('"')
    )


@dataclass(frozen=True)
class _Tile:
    """Steps `[begin, end)` cut `inner` out of `outer`, whose loops have these factors."""

    begin: int
    end: int
    outer: str
    inner: str
    factors: dict[int, int]


def _tile_of(steps: Sequence[Step]) -> _Tile | None:
    """Where a trace cuts out the tile of an intrinsic."""
    annotated = {step.inputs[0] for step in steps if _names_intrinsic(step)}
    for number, step in enumerate(steps):
        if step.kind != "Blockize" or step.outputs[0] not in annotated:
            continue
        begin = number
        while begin and steps[begin - 1].kind in _TILING_FOR_INTRINSIC:
            begin -= 1
        loops = steps[begin]
        splits = [one for one in steps[begin:number] if one.kind == "Split"]
        cut = {one.inputs[0]: one.inputs[-1] for one in splits}
        if loops.kind != "GetLoops" or not _cuts_literally(splits, loops.outputs):
            return None
        places = {name: place for place, name in enumerate(loops.outputs)}
        factors = {places[name]: factor for name, factor in cut.items()}
        return _Tile(begin, number + 1, loops.inputs[0], step.outputs[0], factors)
    return None


def _cuts_literally(splits: Sequence[Step], loops: Sequence[str]) -> bool:
    return bool(splits) and all(
        step.inputs[0] in loops
        and len(step.inputs) == 3
        and step.inputs[1] in ("None", None)
        and isinstance(step.inputs[2], int)
        for step in splits
    )


def _put_back(steps: Sequence[Step], tile: _Tile) -> tuple[Step, ...]:
    changed = list(steps[: tile.begin])
    cut: dict[Any, int] = {}
    for step in steps[tile.end :]:
        inputs = tuple(tile.outer if value == tile.inner else value for value in step.inputs)
        if step.kind == "GetLoops" and step.inputs[0] == tile.inner:
            cut.update(
                (name, tile.factors[place])
                for place, name in enumerate(step.outputs)
                if place in tile.factors
            )
        decision = step.decision
        if step.kind in TILINGS and step.inputs[0] in cut and decision is not None:
            decision = [*decision[:-1], decision[-1] * cut[step.inputs[0]]]
        changed.append(replace(step, inputs=inputs, decision=decision))
    return tuple(changed)
