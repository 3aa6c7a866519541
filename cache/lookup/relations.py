"""How a stored program or target is related to a wanted one.

Programs, the first that holds:

- `other-constants`: the same compiler, structure and buffers. So it is called too where even the
  hash is the same, and only the op is named otherwise.
- of the same op and buffers: `other-pipeline` where attributes differ that name a layout,
  `other-attributes` where other ones do, `other-compiler` of another compiler, and else
  `other-attributes`, whatever it is that the attributes do not tell.
- `other-fusion`: the same compiler and heaviest block, but other neighbours of it.
- `other-pipeline`: the same op but for layout transforms, the same dtypes, and every buffer with as
  many elements but with its axes permuted (three or more: two are as likely another shape), or
  packed into another rank (five or more axes: fewer are as likely a reshape). Where both name their
  layouts, and the same ones, only the shape differs.
- `other-shape`: the same op and dtypes. `other-dtype`: the same op and shapes.

What is unknown of a program (likeness.py) is taken to agree, except for its structure and anchor.

Targets: `equivalent-target` where LLVM switches on the same features and the texts differ in mcpu
and mattr only, and else `other-target`.

Where program and target differ both, the reason is the program's, unless it is the same program but
for its compiler and scalars: then it is the farther of the two. Which of several keys is nearer
goes by the farther of the two always.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from tunebook.cache.buffers import Buffer, parse_buffers
from tunebook.cache.errors import TargetError
from tunebook.cache.keys import WorkloadKey
from tunebook.cache.likeness import UNKNOWN, Likeness, parsed_attributes
from tunebook.cache.misses import MissReason
from tunebook.cache.targets import Target

# Operators that only move data into another layout.
LAYOUT_OPS = ("layout_transform", "transpose")

# That of a packed image, such as NCHW16c.
_PACKED_RANK = 5
_SAME_PROGRAM = (MissReason.OTHER_COMPILER, MissReason.OTHER_CONSTANTS)
_EQUIVALENT_FIELDS = {"target.mcpu", "target.mattr"}
_NEARNESS = {reason: number for number, reason in enumerate(MissReason)}


@dataclass(frozen=True)
class Program:
    """A wanted or stored workload, as far as relations and distances look at it."""

    key: WorkloadKey
    likeness: Likeness = UNKNOWN


def relation_of_programs(wanted: Program, other: Program) -> MissReason | None:
    """How a program other than the wanted one is related to it; None: not at all."""
    mine, theirs = wanted.key, other.key
    same_compiler = mine.compiler == theirs.compiler
    same_buffers = mine.buffers == theirs.buffers
    same_structure = mine.hash == theirs.hash or _are_known_alike(
        wanted.likeness.structure, other.likeness.structure
    )
    if same_compiler and same_buffers and same_structure:
        return MissReason.OTHER_CONSTANTS
    if mine.op == theirs.op and same_buffers:
        return _of_same_buffers(wanted.likeness, other.likeness, same_compiler)
    if same_compiler and _are_known_alike(wanted.likeness.anchor, other.likeness.anchor):
        return MissReason.OTHER_FUSION
    return _of_other_buffers(wanted, other)


def relation_of_targets(
    wanted: str, other: str, wanted_features: str, other_features: str
) -> MissReason:
    """How a target text other than the wanted one is related to it, given the hashes of what LLVM
    switches on for each (empty: unknown)."""
    mine, theirs = parsed_target(wanted), parsed_target(other)
    if mine and theirs and wanted_features and wanted_features == other_features:
        fields = {difference.field for difference in mine.differences(theirs)}
        if fields <= _EQUIVALENT_FIELDS:
            return MissReason.EQUIVALENT_TARGET
    return MissReason.OTHER_TARGET


def nearness(program: MissReason | None, target: MissReason | None) -> int:
    """How near a key is whose program and target are related so (None: the same); 0 is nearest."""
    return max(_NEARNESS[reason] for reason in (program, target) if reason is not None)


def reason_of(program: MissReason | None, target: MissReason | None) -> MissReason:
    """The reason to tell of a key whose program and target are related so (None: the same)."""
    if program is None or target is None:
        reason = program or target
        assert reason is not None
        return reason
    if program in _SAME_PROGRAM and _NEARNESS[target] > _NEARNESS[program]:
        return target
    return program


def bare_op(op: str) -> str:
    """The operators but for those that only move data."""
    return "+".join(part for part in op.split("+") if part not in LAYOUT_OPS)


@lru_cache(maxsize=1 << 16)
def parsed_buffers(text: str) -> tuple[Buffer, ...]:
    """The buffers of a key; none where its text cannot be read."""
    try:
        return parse_buffers(text)
    except ValueError:
        return ()


@lru_cache(maxsize=1 << 12)
def parsed_target(text: str) -> Target | None:
    """The target of a key; None where its text cannot be read."""
    try:
        return Target.parse(text)
    except TargetError:
        return None


def _are_known_alike(wanted: str, other: str) -> bool:
    return wanted != "" and wanted == other


def _of_same_buffers(wanted: Likeness, other: Likeness, same_compiler: bool) -> MissReason:
    mine, theirs = parsed_attributes(wanted.attributes), parsed_attributes(other.attributes)
    if mine is not None and theirs is not None and mine != theirs:
        layouts_agree = _layouts(wanted) == _layouts(other)
        return MissReason.OTHER_ATTRIBUTES if layouts_agree else MissReason.OTHER_PIPELINE
    return MissReason.OTHER_ATTRIBUTES if same_compiler else MissReason.OTHER_COMPILER


def _of_other_buffers(wanted: Program, other: Program) -> MissReason | None:
    mine, theirs = parsed_buffers(wanted.key.buffers), parsed_buffers(other.key.buffers)
    if not mine or len(mine) != len(theirs):
        return None
    same_op = wanted.key.op == other.key.op
    pairs = list(zip(mine, theirs, strict=True))
    if all((one.dtype, one.output) == (two.dtype, two.output) for one, two in pairs):
        if _is_laid_out_otherwise(wanted, other, pairs):
            return MissReason.OTHER_PIPELINE
        return MissReason.OTHER_SHAPE if same_op else None
    same_shapes = all((one.shape, one.output) == (two.shape, two.output) for one, two in pairs)
    return MissReason.OTHER_DTYPE if same_op and same_shapes else None


def _is_laid_out_otherwise(
    wanted: Program, other: Program, pairs: list[tuple[Buffer, Buffer]]
) -> bool:
    if bare_op(wanted.key.op) != bare_op(other.key.op):
        return False
    moved = [_is_moved(one.shape, two.shape) for one, two in pairs if one.shape != two.shape]
    if not all(moved) or (not moved and wanted.key.op == other.key.op):
        return False
    layouts = _layouts(wanted.likeness)
    return not layouts or layouts != _layouts(other.likeness)


def _is_moved(wanted: tuple[int, ...], other: tuple[int, ...]) -> bool:
    if math.prod(wanted) != math.prod(other):
        return False
    if len(wanted) != len(other):
        return max(len(wanted), len(other)) >= _PACKED_RANK
    return len(wanted) > 2 and sorted(wanted) == sorted(other)


def _layouts(likeness: Likeness) -> dict[str, object]:
    attributes = parsed_attributes(likeness.attributes) or {}
    return {
        name: value for name, value in attributes.items() if "layout" in name.rpartition(".")[2]
    }
