"""What passes between the search worker, the build processes and the measuring process."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tunebook.cache.records import ErrorClass, Measurement
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
    measures. `emulated`: its timings say nothing about a real board. `features`: of those boards
    that tell their CPU's features, by LLVM's names, only those that have these will do.
    """

    tracker_host: str
    tracker_port: int
    board_class: str
    shares_host: bool = False
    emulated: bool = False
    features: frozenset[str] = frozenset()


@dataclass(frozen=True)
class VerificationResult:
    """Whether a candidate computes what the unscheduled program computes.

    `text` says in one line what was compared and found. `error` is `wrong-output` when they do not
    agree, and how the candidate failed when it did not finish. It is None when they agree, and
    when nothing was compared, since the unscheduled program itself failed. `board` is where it was
    compared.
    """

    agrees: bool
    text: str
    error: ErrorClass | None = None
    board: str = ""


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
class OpenSession:
    """Asks a measuring process for a session on a board that lasts for another kernel: the one it
    has, or another of `settings.session_seconds`. It answers SessionOpened or NoBoard."""

    settings: BoardSettings


@dataclass(frozen=True)
class OpenedBoard:
    """A board on which a session was opened, as it is registered at the tracker, with its state.

    `name` is what records call it. `server_id` tells its board server from one that is started in
    its place, `features` are what its CPU has by LLVM's names; None and empty where the board does
    not tell. `state` is what records keep of it (load, governor, frequency, temperature).
    """

    board_class: str
    name: str
    host: str
    port: int
    server_id: str | None = None
    mtriple: str = ""
    features: frozenset[str] = frozenset()
    cores: int | None = None
    state: dict[str, float | str] = field(default_factory=dict)


@dataclass(frozen=True)
class SessionOpened:
    """A measuring process has a session, `fresh` since it was asked, which its board ends in
    `seconds_left`."""

    board: OpenedBoard
    seconds_left: float
    fresh: bool


@dataclass(frozen=True)
class SessionTooShort:
    """A trial was not begun, since uploading its inputs took so long that no time was left for the
    kernel; the session was ended, and one of `session_seconds` may do."""

    session_seconds: float


@dataclass(frozen=True)
class TrialDone:
    """A trial's outcome; `held` tells whether the session on the board goes on."""

    outcome: Measurement | VerificationResult
    held: bool


@dataclass(frozen=True)
class GiveBoardBack:
    """Asks a measuring process to end its session; it is not answered."""


@dataclass(frozen=True)
class NoBoard:
    """A measuring process had no board in time, or none for a trial; why, in one line."""

    text: str
