"""How far a stored key is from the wanted one, and in which fields.

The distance counts, in this order: the attributes of the target that differ (of `mattr` each
feature), the buffers whose dtype or rank differs, and the sum over all axes of how many times the
extent would have to be doubled or halved. Equal distances go by the key's text, so that the answer
is the same every time.
"""

from __future__ import annotations

import math

from tunebook.cache.buffers import Buffer, parse_buffers
from tunebook.cache.errors import TargetError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.misses import Difference
from tunebook.cache.targets import Target


def distance(wanted: ScheduleKey, other: ScheduleKey) -> tuple[int, int, float]:
    """Smaller is nearer; see the head of this file."""
    mine, theirs = _buffers(wanted), _buffers(other)
    unlike = abs(len(mine) - len(theirs))
    doublings = 0.0
    for one, another in zip(mine, theirs, strict=False):
        if one.dtype != another.dtype or len(one.shape) != len(another.shape):
            unlike += 1
            continue
        for extent, other_extent in zip(one.shape, another.shape, strict=True):
            doublings += abs(math.log2(max(1, extent)) - math.log2(max(1, other_extent)))
    return _target_distance(wanted.target, other.target), unlike, doublings


def differences(wanted: ScheduleKey, nearest: ScheduleKey) -> tuple[Difference, ...]:
    """The fields in which the nearest stored key differs from the wanted one, target first.

    The workload's hash follows from the rest, and is only told where nothing else differs.
    """
    found = [
        *_target_differences(wanted.target, nearest.target),
        *_buffer_differences(_buffers(wanted), _buffers(nearest)),
    ]
    if wanted.compiler != nearest.compiler:
        found.append(Difference("compiler", wanted.compiler, nearest.compiler))
    if not found:
        found.append(Difference("workload_hash", wanted.workload_hash, nearest.workload_hash))
    return tuple(found)


def _target_differences(wanted: str, nearest: str) -> tuple[Difference, ...]:
    if wanted == nearest:
        return ()
    try:
        return Target.parse(wanted).differences(Target.parse(nearest))
    except TargetError:
        return (Difference("target", wanted, nearest),)


def _target_distance(wanted: str, other: str) -> int:
    return sum(
        len(set(_features(difference.wanted)) ^ set(_features(difference.nearest)))
        if difference.field == "target.mattr"
        else 1
        for difference in _target_differences(wanted, other)
    )


def _features(mattr: str | None) -> list[str]:
    return mattr.split(",") if mattr else []


def _buffers(key: ScheduleKey) -> tuple[Buffer, ...]:
    try:
        return parse_buffers(key.buffers)
    except ValueError:
        return ()


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
