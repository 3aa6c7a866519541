"""What a board's agent tells the coordinator, and what it is told back."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

# Under this key, behind a class's own name, boards in quarantine stand at the tracker: there they
# are measured by their reference alone.
_QUARANTINE = "quarantined"


def quarantine_class(board_class: str) -> str:
    """The key at the tracker of a class's boards that are in quarantine."""
    return f"{board_class}.{_QUARANTINE}"


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


@dataclass(frozen=True)
class BoardOrders:
    """What an agent is told back: why its board is in quarantine (empty: it is not), and how many
    seconds to wait until the next report."""

    quarantine: str = ""
    report_seconds: float = 10.0


@dataclass(frozen=True)
class ClassDefaults:
    """What the targets of a board class have unless they say otherwise."""

    num_cores: int
    mtriple: str
    mcpu: str = ""


@dataclass(frozen=True)
class BoardState:
    """A board as the coordinator knows it. `report` is None where no agent speaks for it, and
    `reference_seconds` until its reference kernel was measured often enough; `reference_spread` is
    a share of them. `quarantine` is the reason (empty: it measures well)."""

    board_class: str
    name: str
    report: BoardReport | None
    reported_at: datetime | None
    reference_seconds: float | None
    reference_spread: float | None
    measured_at: datetime | None
    quarantine: str
    quarantined_at: datetime | None
    suspect_records: int = 0
