"""What passes between the search worker, the build processes and the measuring process."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tunebook.cache.records import ErrorClass
from tunebook.cache.work import BoardPeak
from tunebook.tuner.splitting.program import Program


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
    scheduled program, None for an unscheduled one; `seconds` is what scheduling, compiling and
    linking took together.
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
class CannotBuild:
    """Why this machine builds nothing, whatever the program: no linker, no space; in one line."""

    text: str


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

    `text` says in one line what was compared and found. `error` is `wrong-output` when they do not
    agree, and how the candidate failed when it did not finish. It is None when they agree, and
    when nothing was compared, since the unscheduled program itself failed.
    """

    agrees: bool
    text: str
    error: ErrorClass | None = None


@dataclass(frozen=True)
class BoardSettings:
    """How a measuring process works; times in seconds.

    `session_seconds` is how long it holds a board before it opens another session, `run_timeout`
    how much of that is left at least when a kernel starts.
    """

    address: BoardAddress
    num_cores: int
    board_timeout: float
    run_timeout: float
    session_seconds: float


@dataclass(frozen=True)
class MeasureJob:
    """A kernel to time. `best_seconds` is the best known time, `peak` what the board can do.

    With `single_runs`, so many runs are timed one by one, for the sake of the fastest.
    """

    settings: BoardSettings
    program: Program
    library: BuiltLibrary
    best_seconds: float | None = None
    peak: BoardPeak | None = None
    single_runs: int | None = None


@dataclass(frozen=True)
class VerifyJob:
    """A candidate to compare with the unscheduled program."""

    settings: BoardSettings
    program: Program
    candidate: BuiltLibrary
    reference: BuiltLibrary


MeasuringJob = MeasureJob | VerifyJob


@dataclass(frozen=True)
class GiveBoardBack:
    """Asks a measuring process to end its session; it is not answered."""


@dataclass(frozen=True)
class TrialStarted:
    """A measuring process has a board; it answers before the session's `seconds_left` are over."""

    board: str
    seconds_left: float


@dataclass(frozen=True)
class NoBoard:
    """A measuring process had no board in time; why, in one line."""

    text: str
