"""Boards as machines read them, over HTTP and from the command line alike."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timezone
from typing import Annotated, Any

from pydantic import BaseModel, Field, PlainSerializer

from tunebook.cache.boards.board_reports import BoardState, ClassDefaults
from tunebook.cache.boards.known_boards import HoldingWorker, KnownBoard, Standing, known_boards
from tunebook.cache.lists.catalogue import ListedPeak
from tunebook.cache.store import Store


def _iso(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")


Moment = Annotated[
    # As text also where it is printed.
    datetime,
    PlainSerializer(_iso, return_type=str),
    Field(description="ISO 8601, in UTC."),
]


class BoardWorkerDocument(BaseModel):
    """A worker that has the board now."""

    worker: str
    host: str = Field(description="Where the worker runs.")
    compiler: str = Field(description="The compiler that the worker has, by which it splits.")
    activity: str = Field(description="What the worker does now.")


class BoardReportDocument(BaseModel):
    """What the board's agent said of it last."""

    cpu_model: str
    mtriple: str
    mcpu: str
    cores: int
    features: list[str] = Field(description="CPU features by LLVM's names.")
    governor: str | None
    frequency_khz: int | None
    temperature_c: float | None
    throttled: list[str] = Field(description="What throttles it now, by name.")
    load: float | None
    memory_bytes: int | None
    memory_free_bytes: int | None
    versions: dict[str, str]
    tracker: str
    registered: bool = Field(description="Whether the board server is at the tracker.")
    serving: bool = Field(description="Whether somebody measures on it.")
    restarts: int = Field(description="How often the agent started the board server anew.")
    fault: str = Field(description="Why it did so the last time.")


class BoardDocument(BaseModel):
    """A board. `state` is one word for it; what is known beside that stays to be read: a board in
    quarantine may be silent too."""

    board: str
    state: Standing
    emulated: bool
    cores: int | None
    workers: list[BoardWorkerDocument] = Field(description="Those that have it now.")
    said: dict[str, Any] = Field(description="What the board said of itself to a worker last.")
    report: BoardReportDocument | None = Field(description="Null where no agent speaks for it.")
    reported_at: Moment | None
    silent: bool = Field(description="Whether its agent has not reported lately.")
    reference_seconds: float | None = Field(
        description="What its reference kernel takes; null until it was measured often enough."
    )
    reference_spread: float | None = Field(description="Give or take this share of it.")
    measured_at: Moment | None = Field(description="When its reference was measured last.")
    quarantine: str = Field(
        description="Why it measures nothing but its reference; empty where it measures well."
    )
    quarantined_at: Moment | None
    suspect_records: int = Field(
        description="Records that it measured when it had drifted, not measured again yet."
    )


class PeakDocument(BaseModel):
    """What a class can do at most on a target, as it was measured."""

    target: str
    flops_per_second: float
    bytes_per_second: float
    measured_at: Moment


class ClassDefaultsDocument(BaseModel):
    """What the targets of a class have unless they say otherwise."""

    num_cores: int
    mtriple: str
    mcpu: str = Field(description="Empty where nothing is known but the architecture.")


class BoardClassDocument(BaseModel):
    """A board class: its boards, what completes its targets, and its peaks."""

    board_class: str
    defaults: ClassDefaultsDocument | None
    boards: list[BoardDocument]
    peaks: list[PeakDocument]

    def class_defaults(self) -> ClassDefaults | None:
        """The defaults, to complete targets with."""
        return None if self.defaults is None else ClassDefaults(**self.defaults.model_dump())


class BoardClasses(BaseModel):
    """All board classes, by name."""

    items: list[BoardClassDocument]
    next: None = Field(default=None, description="Always null: they are few.")

    def defaults_of(self, board_class: str) -> ClassDefaults | None:
        """What completes the targets of a class; None for one that has no defaults."""
        found = (one.class_defaults() for one in self.items if one.board_class == board_class)
        return next(found, None)


def board_classes(store: Store) -> BoardClasses:
    """Everything that is known of boards and their classes."""
    boards: dict[str, list[BoardDocument]] = {}
    for board in known_boards(store.boards.boards(), store.fleet.workers()):
        boards.setdefault(board.board_class, []).append(_board(board))
    peaks: dict[str, list[PeakDocument]] = {}
    for peak in store.catalogue.board_peaks():
        peaks.setdefault(peak.board_class, []).append(_peak(peak))
    defaults = store.boards.all_defaults()
    return BoardClasses(
        items=[
            BoardClassDocument(
                board_class=name,
                defaults=_defaults(defaults.get(name)),
                boards=boards.get(name, []),
                peaks=peaks.get(name, []),
            )
            for name in sorted(boards.keys() | peaks.keys() | defaults.keys())
        ]
    )


def _board(board: KnownBoard) -> BoardDocument:
    state = board.state or BoardState(board.board_class, board.name)
    report = state.report
    return BoardDocument(
        board=board.name,
        state=board.standing,
        emulated=board.emulated,
        cores=board.cores,
        workers=list(map(_worker, board.holders)),
        said=board.said,
        report=None if report is None else BoardReportDocument(**asdict(report)),
        reported_at=state.reported_at,
        silent=state.silent,
        reference_seconds=state.reference_seconds,
        reference_spread=state.reference_spread,
        measured_at=state.measured_at,
        quarantine=state.quarantine,
        quarantined_at=state.quarantined_at,
        suspect_records=state.suspect_records,
    )


def _worker(holder: HoldingWorker) -> BoardWorkerDocument:
    worker = holder.worker
    return BoardWorkerDocument(
        worker=worker.name,
        host=worker.host,
        compiler=worker.compiler,
        activity=worker.activity,
    )


def _peak(peak: ListedPeak) -> PeakDocument:
    return PeakDocument(
        target=peak.target,
        flops_per_second=peak.flops_per_second,
        bytes_per_second=peak.bytes_per_second,
        measured_at=peak.measured_at,
    )


def _defaults(defaults: ClassDefaults | None) -> ClassDefaultsDocument | None:
    return None if defaults is None else ClassDefaultsDocument(**asdict(defaults))
