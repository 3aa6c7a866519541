"""A miss: what was looked for, why it is not there, what is nearest, and what mends it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tunebook.cache.errors import ExitCode, TunebookError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import Schedule

# Items of a list that are shown where it is told in words.
_SHOWN_ITEMS = 8
# More ways than these in which the extents of one miss differ are no pattern.
_SHOWN_EXTENTS = 4
_EXTENT = re.compile(r"buffers\[\d+\]\[(\d+)\]")
_DTYPE = re.compile(r"buffers\[\d+\]\.(dtype)")
_ATTRIBUTE = re.compile(r"(attributes\..+)")


class MissReason(str, Enum):
    """Why a look-up missed, nearest cause first.

    Where the key itself has records, what became of them is the reason (`unverified`,
    `emulated-only`, `only-failures`), whatever else is near; only failures give way to the first
    three, where the same trace is at hand and expected to serve.
    """

    EQUIVALENT_TARGET = "equivalent-target"
    OTHER_COMPILER = "other-compiler"
    OTHER_CONSTANTS = "other-constants"
    OTHER_ATTRIBUTES = "other-attributes"
    OTHER_PIPELINE = "other-pipeline"
    OTHER_FUSION = "other-fusion"
    OTHER_TARGET = "other-target"
    OTHER_SHAPE = "other-shape"
    OTHER_DTYPE = "other-dtype"
    ONLY_FAILURES = "only-failures"
    UNVERIFIED = "unverified"
    EMULATED_ONLY = "emulated-only"
    NEVER_TUNED = "never-tuned"


@dataclass(frozen=True)
class Difference:
    """A field in which the wanted and the nearest key differ (`target.mattr`, `buffers[0][2]`).

    Lists stand for lists (`["+dotprod", "+neon"]`, strides, constants), numbers for numbers, and
    None for what one of them does not have.
    """

    field: str
    wanted: Any
    nearest: Any

    def __str__(self) -> str:
        return f"{self.field}: {_told(self)}"


@dataclass(frozen=True)
class Miss:
    """A key that was looked for in vain.

    `nearest` is the nearest stored key (the key itself, where it has records), `differences` where
    it differs; `explanation` is one line in words; `mending_command` may hold the placeholder
    MODEL, which the caller fills in.
    """

    key: ScheduleKey
    reason: MissReason
    nearest: ScheduleKey | None
    differences: tuple[Difference, ...]
    explanation: str
    mending_command: str


@dataclass(frozen=True)
class LookupAnswer:
    """Every key that was asked for is in one of the first two; `passed_over` says in a line each
    which faster records were refused, and what is served instead."""

    hits: dict[ScheduleKey, Schedule]
    misses: tuple[Miss, ...]
    passed_over: tuple[str, ...] = ()


@dataclass(frozen=True)
class MissGroup:
    """Misses of one cause: the same reason, target, compiler and command.

    `cause` is the reason, and in brackets how all of them differ from their nearest keys.
    """

    reason: MissReason
    cause: str
    misses: tuple[Miss, ...]
    mending_command: str


class ScheduleMissError(TunebookError):
    """A build asked for schedules that the cache does not have.

    Its text tells one cause once, with a count, and each mending command once.
    """

    exit_code = ExitCode.MISS
    problem_type = "schedule-miss"

    def __init__(self, misses: Sequence[Miss]) -> None:
        self.misses = tuple(misses)
        super().__init__(_summary(self.misses))


def groups(misses: Sequence[Miss]) -> list[MissGroup]:
    """The misses by their causes, those with the most misses first."""
    found: dict[tuple[Any, ...], list[Miss]] = {}
    for miss in misses:
        found.setdefault((miss.reason, _shared(miss), miss.mending_command), []).append(miss)
    made = [
        MissGroup(reason, _cause(alike), tuple(alike), command)
        for (reason, _, command), alike in found.items()
    ]
    return sorted(made, key=lambda group: -len(group.misses))


def _summary(misses: Sequence[Miss]) -> str:
    head = "1 schedule is missing" if len(misses) == 1 else f"{len(misses)} schedules are missing"
    found = groups(misses)
    if not found:
        return head
    told = "; ".join(f"{len(group.misses)} {group.cause}" for group in found)
    commands = dict.fromkeys(group.mending_command for group in found)
    return f"{head}: {told}; mend with: {'; then: '.join(commands)}"


def _shared(miss: Miss) -> tuple[str, ...]:
    """How a miss differs in what is the same for a whole model: not in shapes or attributes, of
    which each task has its own."""
    return tuple(str(one) for one in miss.differences if _is_of_whole_model(one))


def _is_of_whole_model(one: Difference) -> bool:
    return one.field in ("target", "compiler", "source") or one.field.startswith("target.")


def _cause(alike: Sequence[Miss]) -> str:
    """What misses of one group have in common, in words."""
    told = [
        *_shared(alike[0]),
        *_common(alike, _attributes),
        *_common(alike, _dtypes),
        *(_common(alike, _axes) or _common(alike, _extents)),
    ]
    reason = alike[0].reason.value
    return f"{reason} ({'; '.join(told)})" if told else reason


def _common(alike: Sequence[Miss], pattern: Callable[[Miss], tuple[str, ...]]) -> tuple[str, ...]:
    """The pattern of the misses, if it is the same for all of them."""
    found = {pattern(miss) for miss in alike}
    return found.pop() if len(found) == 1 else ()


def _attributes(miss: Miss) -> tuple[str, ...]:
    return _unique(name for name, _ in _matching(miss, _ATTRIBUTE))


def _dtypes(miss: Miss) -> tuple[str, ...]:
    return _unique(f"dtype: {_told(one)}" for _, one in _matching(miss, _DTYPE))


def _axes(miss: Miss) -> tuple[str, ...]:
    return _few(f"axis {axis}: {_told(one)}" for axis, one in _matching(miss, _EXTENT))


def _extents(miss: Miss) -> tuple[str, ...]:
    return _few(f"extent: {_told(one)}" for _, one in _matching(miss, _EXTENT))


def _matching(miss: Miss, field: re.Pattern[str]) -> list[tuple[str, Difference]]:
    """The differences whose field matches, each with the part of it that was asked for."""
    found = [(field.fullmatch(one.field), one) for one in miss.differences]
    return [(match[1], one) for match, one in found if match]


def _unique(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(texts)))


def _few(texts: Iterable[str]) -> tuple[str, ...]:
    found = _unique(texts)
    return found if len(found) <= _SHOWN_EXTENTS else ()


def _told(one: Difference) -> str:
    return f"wanted {in_words(one.wanted)}, stored {in_words(one.nearest)}"


def in_words(value: Any) -> str:
    """What a field holds, in words."""
    if value is None or value == []:
        return "none"
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return json.dumps(value)
    if all(isinstance(item, str) for item in value):
        return ",".join(value)
    if len(value) > _SHOWN_ITEMS:
        return f"{json.dumps(value[:_SHOWN_ITEMS])[:-1]}, ..] ({len(value)} items)"
    return json.dumps(value)
