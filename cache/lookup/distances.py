"""How far a stored key is from the wanted one, and in which fields they differ.

Of two keys the one with the nearer relation is nearer (relations.py). Of equal relations these
decide, in this order:

1. the target: one of another architecture is farther, then the number of attributes that differ
   (of `mattr` each feature);
2. the program: how it is related by itself, the operators that only one of them has, the
   attributes of operators that differ, the buffers whose dtype or rank differs, the sum over all
   axes of how many times the extent would have to be doubled or halved, the scalar constants that
   differ (where attributes or constants are unknown that counts as one);
3. the compiler: the same one, then the newest by the numbers in its text;
4. the texts of the keys, so that the answer is the same every time.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from tunebook.cache.buffers import Buffer
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.likeness import UNKNOWN, Likeness, parsed_attributes, parsed_constants
from tunebook.cache.lookup.relations import Program, parsed_buffers, parsed_target
from tunebook.cache.misses import Difference

# Constants that are told one by one; more of them are told as the two lists.
_FEW_CONSTANTS = 3


@lru_cache(maxsize=1 << 14)
def target_distance(wanted: str, other: str) -> tuple[bool, int, str]:
    """Smaller is nearer."""
    mine, theirs = parsed_target(wanted), parsed_target(other)
    architectures = mine is None or theirs is None or mine.architecture != theirs.architecture
    apart = sum(
        len(set(one.wanted) ^ set(one.nearest)) if isinstance(one.wanted, list) else 1
        for one in _target_differences(wanted, other)
    )
    return architectures, apart, other


def program_distance(wanted: Program, other: Program) -> tuple[Any, ...]:
    """Smaller is nearer."""
    mine, theirs = wanted.key, other.key
    unlike, doublings = _extents_apart(parsed_buffers(mine.buffers), parsed_buffers(theirs.buffers))
    return (
        (mine.hash, mine.compiler) != (theirs.hash, theirs.compiler),
        _operators_apart(mine.op, theirs.op),
        _attributes_apart(wanted.likeness.attributes, other.likeness.attributes),
        unlike,
        doublings,
        _constants_apart(wanted.likeness.constants, other.likeness.constants),
        mine.compiler != theirs.compiler,
        _oldest_last(theirs.compiler),
        theirs,
    )


def differences(
    wanted: ScheduleKey,
    nearest: ScheduleKey,
    wanted_likeness: Likeness = UNKNOWN,
    nearest_likeness: Likeness = UNKNOWN,
) -> tuple[Difference, ...]:
    """The fields in which the nearest stored key differs from the wanted one: of the target
    (`target.mattr`), `compiler`, `op`, of the operators' attributes (`attributes.conv2d.strides`),
    of the buffers (`buffers[0][2]`, `buffers[0].dtype`), and `constants` or `constants[3]`.

    The workload's hash follows from the rest, and is only told where nothing else differs.
    """
    found = _target_differences(wanted.target, nearest.target)
    if wanted.compiler != nearest.compiler:
        found.append(Difference("compiler", wanted.compiler, nearest.compiler))
    same_op = wanted.op == nearest.op
    if not same_op:
        found.append(Difference("op", wanted.op, nearest.op))
    found += _attribute_differences(
        parsed_attributes(wanted_likeness.attributes),
        parsed_attributes(nearest_likeness.attributes),
        same_op,
    )
    found += _buffer_differences(parsed_buffers(wanted.buffers), parsed_buffers(nearest.buffers))
    if same_op:
        found += _constant_differences(
            parsed_constants(wanted_likeness.constants),
            parsed_constants(nearest_likeness.constants),
        )
    if not found and wanted.workload_hash != nearest.workload_hash:
        found.append(Difference("workload_hash", wanted.workload_hash, nearest.workload_hash))
    return tuple(found)


def _target_differences(wanted: str, nearest: str) -> list[Difference]:
    if wanted == nearest:
        return []
    mine, theirs = parsed_target(wanted), parsed_target(nearest)
    if mine is None or theirs is None:
        return [Difference("target", wanted, nearest)]
    return list(mine.differences(theirs))


def _attribute_differences(
    wanted: Mapping[str, Any] | None, nearest: Mapping[str, Any] | None, same_op: bool
) -> list[Difference]:
    """Of operators that only one of the programs has nothing is told: `op` says it."""
    if wanted is None or nearest is None:
        return []
    names = [name for name in wanted if same_op or name in nearest]
    names += [name for name in nearest if same_op and name not in wanted]
    return [
        Difference(f"attributes.{name}", wanted.get(name), nearest.get(name))
        for name in names
        if wanted.get(name) != nearest.get(name)
    ]


def _constant_differences(
    wanted: Sequence[Any] | None, nearest: Sequence[Any] | None
) -> list[Difference]:
    if wanted is None or nearest is None:
        return []
    if len(wanted) == len(nearest):
        other = [number for number in range(len(wanted)) if not _same(wanted, nearest, number)]
        if len(other) <= _FEW_CONSTANTS:
            return [
                Difference(f"constants[{number}]", wanted[number], nearest[number])
                for number in other
            ]
    return [Difference("constants", list(wanted), list(nearest))]


def _buffer_differences(
    wanted: tuple[Buffer, ...], nearest: tuple[Buffer, ...]
) -> list[Difference]:
    if len(wanted) != len(nearest):
        return [Difference("buffers", len(wanted), len(nearest))]
    found = []
    for number, (one, another) in enumerate(zip(wanted, nearest, strict=True)):
        name = f"buffers[{number}]"
        if one.dtype != another.dtype:
            found.append(Difference(f"{name}.dtype", one.dtype, another.dtype))
        if len(one.shape) != len(another.shape):
            found.append(Difference(f"{name}.rank", len(one.shape), len(another.shape)))
            continue
        for axis, extents in enumerate(zip(one.shape, another.shape, strict=True)):
            if extents[0] != extents[1]:
                found.append(Difference(f"{name}[{axis}]", *extents))
    return found


@lru_cache(maxsize=1 << 14)
def _operators_apart(wanted: str, other: str) -> int:
    mine, theirs = Counter(wanted.split("+")), Counter(other.split("+"))
    return ((mine - theirs) + (theirs - mine)).total()


@lru_cache(maxsize=1 << 14)
def _attributes_apart(wanted: str, other: str) -> int:
    if wanted and wanted == other:
        return 0
    mine, theirs = parsed_attributes(wanted), parsed_attributes(other)
    if mine is None or theirs is None:
        return 1
    return sum(mine.get(name) != theirs.get(name) for name in {*mine, *theirs})


@lru_cache(maxsize=1 << 14)
def _constants_apart(wanted: str, other: str) -> int:
    if wanted and wanted == other:
        return 0
    mine, theirs = parsed_constants(wanted), parsed_constants(other)
    if mine is None or theirs is None:
        return 1
    shorter = min(len(mine), len(theirs))
    same = sum(_same(mine, theirs, number) for number in range(shorter))
    return max(len(mine), len(theirs)) - same


def _same(wanted: Sequence[Any], nearest: Sequence[Any], number: int) -> bool:
    one, another = wanted[number], nearest[number]
    # Not a number is as good as another one here.
    return bool(one == another) or json.dumps(one) == json.dumps(another)


def _extents_apart(mine: tuple[Buffer, ...], theirs: tuple[Buffer, ...]) -> tuple[int, float]:
    """How many buffers have another dtype or rank, and the doublings of the others' extents."""
    unlike = abs(len(mine) - len(theirs))
    doublings = 0.0
    for one, another in zip(mine, theirs, strict=False):
        if one.dtype != another.dtype or len(one.shape) != len(another.shape):
            unlike += 1
        elif one.shape != another.shape:
            for extents in zip(one.shape, another.shape, strict=True):
                if extents[0] != extents[1]:
                    doublings += abs(math.log2(max(1, extents[0]) / max(1, extents[1])))
    return unlike, doublings


@lru_cache(maxsize=1 << 10)
def _oldest_last(compiler: str) -> tuple[int, ...]:
    return tuple(-int(number) for number in re.findall(r"\d+", compiler))
