"""SKETCH. What passes between the search worker, the build processes and the measuring process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tunebook.cache.records import ErrorClass


@dataclass(frozen=True)
class BuildRequest:
    """A program to schedule by `trace` (None: unscheduled), compile for `target`, and link.

    `module_hash` is what the trace must schedule to (None: unknown); another hash is a failure.
    """

    tir: str
    target: str  # canonical text
    trace: str | None
    module_hash: str | None = None


@dataclass(frozen=True)
class BuiltLibrary:
    """A shared library of one kernel, entry point `main`, with the cost model's features."""

    path: Path
    module_hash: str
    features: bytes | None  # float32 little endian, feature_columns wide
    feature_columns: int
    seconds: float


@dataclass(frozen=True)
class BuildFailure:
    """Why there is no library: `build` or `compile-timeout`, with the compiler's text."""

    error: ErrorClass
    text: str
    seconds: float


@dataclass(frozen=True)
class BoardAddress:
    """Boards of one class behind an RPC tracker.

    `shares_host`: the board is this machine, so nothing of ours may build or search while it
    measures. `emulated`: its timings say nothing about a real board.
    """

    tracker_host: str
    tracker_port: int
    board_class: str
    shares_host: bool = False
    emulated: bool = False
