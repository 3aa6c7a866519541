"""Records: what was tried, what it measured or how it failed, and whether it was verified."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from statistics import median

from tunebook.cache.keys import ScheduleKey, WorkloadKey
from tunebook.cache.likeness import UNKNOWN, Likeness, LookupHints


class ErrorClass(str, Enum):
    """How a trial failed."""

    BUILD = "build"
    COMPILE_TIMEOUT = "compile-timeout"
    RUN = "run"
    RUN_TIMEOUT = "run-timeout"
    BOARD_LOST = "board-lost"
    WRONG_OUTPUT = "wrong-output"
    IMPLAUSIBLE = "implausible"


class Source(str, Enum):
    """Where a schedule comes from: the search, a near workload's trace (in a search's first round
    or in a migration), or another database, whose times say nothing here."""

    SEARCH = "search"
    WARM_START = "warm-start"
    MIGRATION = "migration"
    IMPORT = "import"


@dataclass(frozen=True)
class Candidate:
    """A schedule to try: its trace as JSON text, and the hash of the module it schedules to.

    `origin` says in one line which record it was made from and how, where it was made from one.
    """

    trace: str
    module_hash: str
    source: Source = Source.SEARCH
    origin: str = ""


@dataclass(frozen=True)
class Measurement:
    """What one trial gave.

    `run_seconds` are the repeats kept, each the mean of many runs (empty when the trial failed);
    `error` and `error_text` say how it failed; `board_seconds` is what it cost the board, failure
    or not; `features` are the cost model's input (float32, little endian, `feature_columns` wide;
    None where the candidate could not be scheduled).
    """

    run_seconds: tuple[float, ...] = ()
    error: ErrorClass | None = None
    error_text: str = ""
    board: str = ""
    board_class: str = ""
    emulated: bool = False
    board_seconds: float = 0.0
    board_state: dict[str, float | str] = field(default_factory=dict)
    features: bytes | None = None
    feature_columns: int = 0

    @property
    def seconds(self) -> float | None:
        """The median run time in seconds, or None for a failure."""
        return median(self.run_seconds) if self.run_seconds and self.error is None else None


@dataclass(frozen=True)
class Record:
    """One measured trial as the database holds it. `suspect`: its board had drifted by then, and no
    other has measured it again."""

    id: int
    key: ScheduleKey
    candidate: Candidate
    measurement: Measurement
    verified: bool
    suspect: bool = False


@dataclass(frozen=True)
class Schedule:
    """The record that is served for a key."""

    key: ScheduleKey
    record_id: int
    trace: str
    module_hash: str
    seconds: float
    emulated: bool
    source: Source = Source.SEARCH


@dataclass(frozen=True)
class Workload:
    """A workload with what is needed to schedule it again: its TIR as TVM's JSON text, which is
    left out (empty) where a model is only looked up."""

    key: WorkloadKey
    tir: str
    flops: float
    likeness: Likeness = UNKNOWN


@dataclass(frozen=True)
class Task:
    """A workload in a model, with its weight: how often the model calls it."""

    workload: Workload
    weight: int


@dataclass(frozen=True)
class Model:
    """A model as it was split for one target by one compiler.

    `digest` is the SHA-256 of the model file with its external data, `shapes` the fixed input
    shapes as canonical text (`input=1,24,24,3`, sorted by name, joined by spaces), `choices` the
    choices of `prepare` as canonical text, `target_features` a hash of the features that LLVM
    switches on for the target (empty: unknown).
    """

    digest: str
    shapes: str
    target: str
    compiler: str
    choices: str
    tasks: tuple[Task, ...]
    target_features: str = ""

    @property
    def keys(self) -> tuple[ScheduleKey, ...]:
        """What a build of this model looks up."""
        return tuple(task.workload.key.on(self.target) for task in self.tasks)

    @property
    def hints(self) -> LookupHints:
        """What a look-up of these keys may know to explain its misses."""
        return LookupHints(
            likeness={task.workload.key: task.workload.likeness for task in self.tasks},
            features={self.target: self.target_features} if self.target_features else {},
        )


@dataclass(frozen=True)
class StoredModel:
    """A stored model without its programs: which it is, and the keys that it was split into."""

    digest: str
    shapes: str
    choices: str
    keys: tuple[ScheduleKey, ...]
