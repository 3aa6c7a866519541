"""A miss: what was looked for, why it is not there, what is nearest, and what mends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tunebook.cache.errors import ExitCode, TunebookError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import Schedule


class MissReason(str, Enum):
    """Why a look-up missed, nearest cause first.

    Where the key itself has records, what became of them is the reason (`only-failures`,
    `unverified`, `emulated-only`), whatever else is near.
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

    None stands for what one of them does not have.
    """

    field: str
    wanted: Any
    nearest: Any

    def __str__(self) -> str:
        return f"{self.field}: wanted {_said(self.wanted)}, stored {_said(self.nearest)}"


@dataclass(frozen=True)
class Miss:
    """A key that was looked for in vain.

    `nearest` is the nearest stored key, `differences` where it differs; `explanation` is one line
    in words; `mending_command` may hold the placeholder MODEL, which the caller fills in.
    """

    key: ScheduleKey
    reason: MissReason
    nearest: ScheduleKey | None
    differences: tuple[Difference, ...]
    explanation: str
    mending_command: str


@dataclass(frozen=True)
class LookupAnswer:
    """Every key that was asked for is in one of the two."""

    hits: dict[ScheduleKey, Schedule]
    misses: tuple[Miss, ...]


class ScheduleMissError(TunebookError):
    """A build asked for schedules that the cache does not have.

    Its text groups the misses by reason and by what differs: one cause is told once, with a count.
    """

    exit_code = ExitCode.MISS
    problem_type = "schedule-miss"

    def __init__(self, misses: Sequence[Miss]) -> None:
        self.misses = tuple(misses)
        super().__init__(_summary(self.misses))


def causes(misses: Sequence[Miss]) -> list[tuple[str, int]]:
    """The causes of misses in words, each with its count, the most frequent first."""
    return Counter(_cause(miss) for miss in misses).most_common()


def _summary(misses: Sequence[Miss]) -> str:
    one = len(misses) == 1
    head = "1 schedule is missing" if one else f"{len(misses)} schedules are missing"
    told = "; ".join(f"{count} {cause}" for cause, count in causes(misses))
    commands = Counter(miss.mending_command for miss in misses).most_common()
    mend = f"; mend with: {commands[0][0]}" if commands else ""
    return f"{head}: {told}{mend}" if told else head


def _cause(miss: Miss) -> str:
    """What misses of one cause have in common: of shapes each has its own, so only the reason."""
    targets = [str(difference) for difference in miss.differences if _of_target(difference)]
    return f"{miss.reason.value} ({'; '.join(targets)})" if targets else miss.reason.value


def _of_target(difference: Difference) -> bool:
    return difference.field == "target" or difference.field.startswith("target.")


def _said(value: Any) -> str:
    return "none" if value is None else str(value)
