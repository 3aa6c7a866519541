"""What passes between a worker and the store: budgets, tasks, rounds and their slots."""

from __future__ import annotations

from dataclasses import dataclass

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import Candidate, ErrorClass

# The limit of a budget that does not limit trials.
UNLIMITED_TRIALS = 10**9


@dataclass(frozen=True)
class Budget:
    """A budget of trials for one model digest, shapes, target and compiler.

    granted = in flight + spent. `granted <= limit` always holds; where trials are not limited the
    limit is UNLIMITED_TRIALS. `board_seconds` is what its trials cost the boards, repeats and
    failures included.
    """

    id: int
    limit: int
    granted: int
    spent: int
    board_seconds: float


@dataclass(frozen=True)
class TaskState:
    """A task in a job as the allocator sees it (read fresh before each planning).

    Times, trials and failures are those of the job's kind of board: real or emulated.
    `best_seconds` is the best successful record, verified or not; `served_seconds` the best
    verified one, which a look-up would hit. `suspects` of the records are suspect: their times are
    the best only where there is no other (`best_is_suspect`). `trials` counts the records of this
    workload and target, failures included. `history` is the best after each finished round, oldest
    first (infinite where every trial until then had failed), `history_trials` how many trials had
    been made in rounds by then, where that is known. `exhausted`: the search found fewer than half
    of the new candidates that a round asked for, so that no more rounds are proposed. What a trial
    took is the mean over the finished rounds; None before the first.
    """

    id: int
    key: ScheduleKey
    weight: int
    flops: float
    untuned_seconds: float | None
    best_seconds: float | None
    served_seconds: float | None
    trials: int
    history: tuple[float, ...]
    exhausted: bool
    failures: dict[ErrorClass, int]
    seconds_per_trial: float | None = None
    board_seconds_per_trial: float | None = None
    history_trials: tuple[int, ...] = ()
    suspects: int = 0
    best_is_suspect: bool = False


@dataclass(frozen=True)
class RoundProposal:
    """A round that a planner wants: up to `size` trials of a task. `gain` ranks the open rounds of
    all jobs: a share of the model's latency a second of tuning, times the job's priority."""

    task_id: int
    size: int
    gain: float


@dataclass(frozen=True)
class Slot:
    """A candidate that was stored before measuring; `record_id` is set once its result is."""

    number: int
    candidate: Candidate
    record_id: int | None


@dataclass(frozen=True)
class ClaimedRound:
    """A round that is this worker's until another raises its epoch.

    `size` is the number of trials that the budget granted, those of a predecessor included;
    `slots` are what a predecessor stored already: candidates, some with results.
    """

    id: int
    epoch: int
    job_id: int
    task_id: int
    key: ScheduleKey
    size: int
    slots: tuple[Slot, ...]
    board_class: str = ""
    emulated: bool = False


@dataclass(frozen=True)
class StoredResult:
    """`repeated`: there was a record of this already; kept as a repeat of it, never charged."""

    record_id: int
    repeated: bool


@dataclass(frozen=True)
class BoardPeak:
    """What a board class can do at most on a target: arithmetic and memory traffic a second."""

    flops_per_second: float
    bytes_per_second: float
