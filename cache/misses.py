"""SKETCH. A miss: what was looked for, why it is not there, what is nearest, and what mends it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from tunebook.cache.errors import ExitCode, TunebookError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import Schedule


class MissReason(str, Enum):
    """Why a look-up missed, nearest cause first."""

    OTHER_TARGET = "other-target"
    OTHER_SHAPE = "other-shape"
    OTHER_DTYPE = "other-dtype"
    ONLY_FAILURES = "only-failures"
    UNVERIFIED = "unverified"
    EMULATED_ONLY = "emulated-only"
    NEVER_TUNED = "never-tuned"


@dataclass(frozen=True)
class Difference:
    """One field in which the wanted and the nearest key differ (`target.mattr`, `buffers[0][2]`)."""

    field: str
    wanted: Any
    nearest: Any


@dataclass(frozen=True)
class Miss:
    key: ScheduleKey
    reason: MissReason
    nearest: ScheduleKey | None
    differences: tuple[Difference, ...]
    explanation: str  # one line, in words
    mending_command: str  # may hold the placeholder MODEL, which the caller fills in


@dataclass(frozen=True)
class LookupAnswer:
    hits: dict[ScheduleKey, Schedule]
    misses: tuple[Miss, ...]


class ScheduleMissError(TunebookError):
    """A build asked for schedules that the cache does not have."""

    exit_code = ExitCode.MISS
    problem_type = "schedule-miss"

    def __init__(self, misses: tuple[Miss, ...]) -> None:
        self.misses = misses
        super().__init__(f"{len(misses)} schedules are missing")
