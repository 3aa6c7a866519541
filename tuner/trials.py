"""What passes between the search worker, the build processes and the measuring process."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tunebook.cache.records import ErrorClass


@dataclass(frozen=True)
class BuildRequest:
    """A program to schedule by `trace` (None: unscheduled), compile for `target`, and link.

    `tir` is TVM's JSON text of the IRModule, `target` the canonical text. `module_hash` is what
    the trace must schedule to (None: unknown); another hash is a failure.
    """

    tir: str
    target: str
    trace: str | None
    module_hash: str | None = None


@dataclass(frozen=True)
class BuildJob:
    """What a build process is sent: a request, and where its library goes."""

    request: BuildRequest
    path: Path


@dataclass(frozen=True)
class BuiltLibrary:
    """A shared library of one kernel, entry point `main`, with the cost model's features.

    `features` are float32, little endian, `feature_columns` wide, one row per store of the
    scheduled program; `seconds` is what scheduling, compiling and linking took together.
    """

    path: Path
    module_hash: str
    features: bytes | None = field(repr=False)
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


@dataclass(frozen=True)
class VerificationResult:
    """Whether a candidate computes what the unscheduled program computes.

    `text` says in one line what was compared and found. `error` is None when they agree,
    `wrong-output` when they do not, and how the candidate failed when it did not finish.
    """

    agrees: bool
    text: str
    error: ErrorClass | None = None
