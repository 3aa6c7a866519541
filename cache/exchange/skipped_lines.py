"""An account of the lines that an import left out, with the reason of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

_LINES_TOLD = 5


class SkipReason(str, Enum):
    """Why a line was left out."""

    BAD_LINE = "not a line of this format"
    UNTRUSTED_PROGRAM = "the program holds what is not on the list"
    UNREADABLE_PROGRAM = "the program cannot be loaded"
    NO_WORKLOAD = "of a workload that was not loaded"
    BAD_TARGET = "the target is refused"
    OTHER_TARGET = "for another target"
    UNTRUSTED_TRACE = "the trace holds what is not on the list"
    NO_REPLAY = "the trace does not replay"


@dataclass(frozen=True)
class SkippedLines:
    """The lines of a file that were left out for one reason: how many, the numbers of the first
    few, and what exactly was wrong with the first."""

    file: str
    reason: SkipReason
    count: int
    lines: tuple[int, ...]
    detail: str


@dataclass
class _Group:
    detail: str
    count: int = 0
    lines: list[int] = field(default_factory=list)


class SkipCounts:
    """Counts lines as they are left out; holds a few numbers of each kind, however many come."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, SkipReason], _Group] = {}

    def add(self, file: str, line: int, reason: SkipReason, detail: str) -> None:
        group = self._groups.setdefault((file, reason), _Group(detail))
        group.count += 1
        if len(group.lines) < _LINES_TOLD:
            group.lines.append(line)

    def __iter__(self) -> Iterator[SkippedLines]:
        for (file, reason), group in self._groups.items():
            yield SkippedLines(file, reason, group.count, tuple(group.lines), group.detail)
