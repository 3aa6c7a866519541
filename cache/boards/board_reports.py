"""What a board's agent tells the coordinator, and what it is told back."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar

from tunebook.cache.errors import TargetError
from tunebook.cache.targets import ARCHITECTURES, KIND, Target, canonical_target

REPORT_SECONDS = 10.0
# An agent that missed so many reports in a row is silent.
SILENT_SECONDS = 3 * REPORT_SECONDS
# Longer than anything that a board truly says; what is longer is refused.
LONGEST_TEXT = 200
LONGEST_FAULT = 1_000
LONGEST_WORD = 100
MOST_FEATURES = 1_000
MOST_ITEMS = 32
MOST_CORES = 4_096
LARGEST_NUMBER = 2**53
HIGHEST_LOAD = 1e6
COLDEST_C, HOTTEST_C = -300.0, 1_000.0
# A part of a target's text.
WORD = r"^[A-Za-z0-9_.+-]*$"


@dataclass(frozen=True)
class BoardReport:
    """A board's state as its agent sees it; None and empty where the board does not tell.

    `features` are CPU features by LLVM's names, `throttled` flags by name, memory in bytes,
    `temperature_c` in degrees Celsius, `load` that of the last minute. `restarts` is how often the
    agent started the board server anew, `fault` why the last time.
    """

    cpu_model: str = ""
    mtriple: str = ""
    mcpu: str = ""
    cores: int = 1
    features: tuple[str, ...] = ()
    governor: str | None = None
    frequency_khz: int | None = None
    temperature_c: float | None = None
    throttled: tuple[str, ...] = ()
    load: float | None = None
    memory_bytes: int | None = None
    memory_free_bytes: int | None = None
    versions: dict[str, str] = field(default_factory=dict)
    tracker: str = ""
    registered: bool = False
    serving: bool = False
    restarts: int = 0
    fault: str = ""

    def shortened(self) -> BoardReport:
        """The report as a coordinator takes it, whatever the board's files and programs say: each
        text one printable line of limited length, of lists the first items, and nothing in place of
        a figure that cannot be."""
        return replace(
            self,
            cpu_model=_line(self.cpu_model),
            mtriple=_word(self.mtriple),
            mcpu=_word(self.mcpu),
            cores=min(max(1, self.cores), MOST_CORES),
            features=tuple(map(_line, self.features[:MOST_FEATURES])),
            governor=None if self.governor is None else _line(self.governor),
            frequency_khz=_within(self.frequency_khz, 0, LARGEST_NUMBER),
            temperature_c=_within(self.temperature_c, COLDEST_C, HOTTEST_C),
            throttled=tuple(map(_line, self.throttled[:MOST_ITEMS])),
            load=_within(self.load, 0, HIGHEST_LOAD),
            memory_bytes=_within(self.memory_bytes, 0, LARGEST_NUMBER),
            memory_free_bytes=_within(self.memory_free_bytes, 0, LARGEST_NUMBER),
            versions={
                _line(name): _line(version)
                for name, version in list(self.versions.items())[:MOST_ITEMS]
            },
            tracker=_line(self.tracker),
            restarts=min(max(0, self.restarts), LARGEST_NUMBER),
            fault=_line(self.fault, LONGEST_FAULT),
        )

    def defaults(self) -> ClassDefaults | None:
        """What it says of all boards of its class; None without a triple of an architecture that
        code is made for. Raises TargetError."""
        if not self.mtriple:
            return None
        told = ClassDefaults(self.cores, self.mtriple, self.mcpu)
        return told.canonical() if told.target.architecture is not None else None


@dataclass(frozen=True)
class BoardOrders:
    """What an agent is told back: why its board is in quarantine (empty: it is not), and how many
    seconds to wait until the next report."""

    quarantine: str = ""
    report_seconds: float = REPORT_SECONDS


@dataclass(frozen=True)
class ClassDefaults:
    """What the targets of a board class have unless they say otherwise; without `mcpu` nothing is
    known of the processor but its architecture."""

    num_cores: int
    mtriple: str
    mcpu: str = ""

    def attributes(self) -> dict[str, str]:
        """The same as attributes of a target."""
        given = {"mtriple": self.mtriple, "num-cores": str(self.num_cores)}
        return {**given, "mcpu": self.mcpu} if self.mcpu else given

    @property
    def target(self) -> Target:
        """The target that a class with these defaults completes `llvm` to. Raises TargetError."""
        return canonical_target({"kind": KIND, **self.attributes()})

    def canonical(self) -> ClassDefaults:
        """The same in the spelling of canonical targets. Raises TargetError for what no target can
        have, and for an architecture that no code is made for."""
        target = self.target
        if target.architecture is None:
            raise TargetError(
                f"Tunebook makes no code for the architecture of -mtriple={target.mtriple}; known "
                f"are {', '.join(ARCHITECTURES)}"
            )
        return ClassDefaults(target.num_cores, target.mtriple, target.mcpu or "")


@dataclass(frozen=True)
class BoardState:
    """A board as the coordinator knows it. `report` is None where no agent speaks for it, and
    `reference_seconds` until its reference kernel was measured often enough; `reference_spread` is
    a share of them. `quarantine` is the reason (empty: it measures well). `silent` where its agent
    has reported, but not lately."""

    board_class: str
    name: str
    report: BoardReport | None = None
    reported_at: datetime | None = None
    reference_seconds: float | None = None
    reference_spread: float | None = None
    measured_at: datetime | None = None
    quarantine: str = ""
    quarantined_at: datetime | None = None
    suspect_records: int = 0
    silent: bool = False


def is_silent(reported_at: datetime, moment: datetime) -> bool:
    """Whether an agent that reported last at one moment is silent at the other."""
    return reported_at < moment - timedelta(seconds=SILENT_SECONDS)


_Figure = TypeVar("_Figure", int, float)


def _within(figure: _Figure | None, least: float, most: float) -> _Figure | None:
    return figure if figure is not None and least <= figure <= most else None


def _word(text: str) -> str:
    return text if len(text) <= LONGEST_WORD and re.fullmatch(WORD, text) else ""


def _line(text: str, longest: int = LONGEST_TEXT) -> str:
    line = " ".join(text.split())
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in line)[
        :longest
    ]
