"""What passes between those who submit jobs, the queue that holds them, and the workers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

# The stages of an open job.
SPLIT = "split"
RECOVER = "recover"
SEARCH = "search"
_EMULATED_CLASSES = "emulated-"


def is_emulated(board_class: str) -> bool:
    """Whether boards of a class are emulated: its name says so."""
    return board_class.startswith(_EMULATED_CLASSES)


@dataclass(frozen=True)
class BudgetLimits:
    """What jobs may use at most; None is no limit, and at least one is given.

    `seconds` count while workers work for the budget, on their monotonic clocks; `board_seconds`
    are what its trials cost the boards; `deadline` is aware, by the wall clock.
    """

    trials: int | None = None
    seconds: float | None = None
    board_seconds: float | None = None
    deadline: datetime | None = None


@dataclass(frozen=True)
class JobRequest:
    """A wish to tune a model, before anybody opened it.

    `shapes` is the canonical text of those that were given ("input=1,24,24,3", sorted by name;
    empty: the model's own), `target` a canonical target, `choices` as the model's are stored.
    Gains of its rounds are multiplied by `priority`.
    """

    digest: str
    shapes: str
    target: str
    board_class: str
    choices: str = ""
    name: str = ""
    priority: float = 1.0

    @property
    def emulated(self) -> bool:
        """Whether the boards of its class are emulated."""
        return is_emulated(self.board_class)


@dataclass(frozen=True)
class Idempotency:
    """A client's key for what it asks, so that asking again makes nothing twice. `owner` tells
    clients apart, `body_hash` what they asked."""

    owner: str
    key: str
    body_hash: str


@dataclass(frozen=True)
class Submission:
    """The job of a submission; not `created` where an earlier one with the same key had made it."""

    job_id: int
    created: bool


class JobState(str, Enum):
    """What a submitted job is at.

    `waiting`: nobody who is alive serves its board class. `queued`: it is to be split, or is being
    split. `recovering`: traces of near programs are tried. `running`: it is searched for.
    """

    QUEUED = "queued"
    WAITING = "waiting"
    RECOVERING = "recovering"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


# Of a job that is in one of these nothing happens any more.
ENDED = frozenset({JobState.DONE, JobState.FAILED, JobState.CANCELLED})
OPEN = tuple(state for state in JobState if state not in ENDED)


@dataclass(frozen=True)
class BudgetUse:
    """A budget and what was used of it; shared by jobs where it has a name.

    `trials_granted` counts the trials in flight and those spent. `over` says which limit is
    reached: `trials`, `time`, `board-time` or `deadline`; then nothing is granted any more.
    """

    id: int
    name: str
    limits: BudgetLimits
    trials_spent: int
    trials_granted: int
    used_seconds: float
    board_seconds: float
    created_at: datetime | None
    over: str | None

    @property
    def trials_in_flight(self) -> int:
        return self.trials_granted - self.trials_spent

    @property
    def trials_left(self) -> int | None:
        """Trials that may still be granted; None where they are not limited."""
        return None if self.limits.trials is None else self.limits.trials - self.trials_granted

    @property
    def seconds_left(self) -> float | None:
        return _left(self.limits.seconds, self.used_seconds)

    @property
    def board_seconds_left(self) -> float | None:
        return _left(self.limits.board_seconds, self.board_seconds)


def _left(limit: float | None, used: float) -> float | None:
    return None if limit is None else max(0.0, limit - used)


@dataclass(frozen=True)
class Job:
    """A submitted job as it stands.

    `reason` says why it ended, or why it waits; `log` is what there is to read about a failure
    (left out of lists); `waiting_for` is the board class that nobody serves, else empty; `model_id`
    is known once it was split; `last_event` is the number of its newest event, 0 once its events
    were forgotten.
    """

    id: int
    request: JobRequest
    state: JobState
    reason: str
    log: str
    waiting_for: str
    budget: BudgetUse
    created_at: datetime
    finished_at: datetime | None
    model_id: int | None
    last_event: int


@dataclass(frozen=True)
class JobFilter:
    """Which jobs are listed: those that agree with all that is given."""

    states: tuple[JobState, ...] = ()
    digest: str | None = None
    target: str | None = None
    board_class: str | None = None
    budget_id: int | None = None
    name: str | None = None


@dataclass(frozen=True)
class ClaimedStage:
    """A job's stage (`split` or `recover`) that is this worker's until another raises its epoch.
    `model_id` is known once it was split."""

    job_id: int
    epoch: int
    stage: str
    request: JobRequest
    model_id: int | None
    budget: BudgetUse


@dataclass(frozen=True)
class SearchingJob:
    """An open job that wants search rounds, and whose budget is not over."""

    job_id: int
    model_id: int
    request: JobRequest
    budget: BudgetUse

    @property
    def budget_id(self) -> int:
        return self.budget.id

    @property
    def priority(self) -> float:
        return self.request.priority

    @property
    def target(self) -> str:
        return self.request.target

    @property
    def board_class(self) -> str:
        return self.request.board_class
