"""Jobs and budgets as documents: what is sent to submit one, and what is answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from tunebook.cache.submissions import BudgetLimits, BudgetUse, Job, JobState
from tunebook.cache.work import TaskState
from tunebook.service.api.field_types import (
    BoardClass,
    Digest,
    GivenMoment,
    Moment,
    Name,
    RowNumber,
    Seconds,
    TargetText,
)
from tunebook.tuner.search.allocation import expected_saving
from tunebook.tuner.splitting.choices import Choices

_MOST_TRIALS = 999_999_999
_EXAMPLE_DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
_EXAMPLE_TARGET = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4"

InputName = Annotated[
    # Shapes are stored as text that spaces separate.
    str,
    StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x20\x7f]+$"),
]
Dimensions = Annotated[
    list[Annotated[int, Field(ge=1, le=2**31 - 1)]], Field(min_length=1, max_length=16)
]


class LimitsDocument(BaseModel):
    """What jobs may use: any of these limits, and at least one. Trials are exact; time is overrun
    by less than a round."""

    model_config = ConfigDict(extra="forbid")

    trials: Annotated[int, Field(ge=1, le=_MOST_TRIALS)] | None = None
    seconds: Seconds | None = Field(
        None, description="Wall-clock seconds in which workers work for the budget."
    )
    board_seconds: Seconds | None = Field(
        None, description="Seconds of boards, over all boards together."
    )
    deadline: GivenMoment | None = None

    @model_validator(mode="after")
    def _limits_something(self) -> LimitsDocument:
        limits = (self.trials, self.seconds, self.board_seconds, self.deadline)
        if all(limit is None for limit in limits):
            raise ValueError("it limits nothing; give trials, seconds, board_seconds or deadline")
        return self

    def limits(self) -> BudgetLimits:
        return BudgetLimits(self.trials, self.seconds, self.board_seconds, self.deadline)


class BudgetSubmission(LimitsDocument):
    """A budget that jobs share, such as those of a night."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "night", "trials": 20000, "deadline": "2030-01-02T06:00:00Z"}]
        }
    )

    name: Annotated[Name, Field(min_length=1)]


class JobSubmission(BaseModel):
    """A model to tune for a target on boards of a class, with a budget of its own (`budget`) or a
    shared one (`budget_id`)."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "model": _EXAMPLE_DIGEST,
                    "shapes": {"input": [1, 3, 224, 224]},
                    "target": _EXAMPLE_TARGET,
                    "board_class": "rpi5",
                    "budget": {"trials": 1200, "deadline": "2030-01-02T06:00:00Z"},
                }
            ]
        },
    )

    model: Digest
    shapes: Annotated[dict[InputName, Dimensions], Field(max_length=64)] = Field(
        default_factory=dict,
        description="Dimensions of inputs that the model leaves open, by name.",
    )
    target: TargetText = Field(
        description="Without `-num-cores` where all boards of the class that are there agree on it."
    )
    board_class: BoardClass = "local"
    budget: LimitsDocument | None = None
    budget_id: RowNumber | None = None
    priority: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] = Field(
        1.0, description="What expected gains are multiplied by where jobs compete."
    )
    layout: Literal["NCHW", "NHWC"] | None = Field(
        None, description="How images lie in memory between 2-D convolutions; NCHW if left out."
    )
    name: Name = Field("", description="What people call it.")

    @model_validator(mode="after")
    def _one_budget(self) -> JobSubmission:
        if (self.budget is None) == (self.budget_id is None):
            raise ValueError("give either budget or budget_id")
        return self

    def budget_use(self) -> BudgetLimits | int:
        """The limits of a budget of its own, or the number of a shared one."""
        if self.budget is not None:
            return self.budget.limits()
        assert self.budget_id is not None
        return self.budget_id


class TrialUse(BaseModel):
    """Trials of a budget; `left` is null where they are not limited."""

    limit: int | None
    spent: int
    in_flight: int
    left: int | None


class TimeUse(BaseModel):
    """Seconds of a budget; `left` is null where they are not limited."""

    limit: float | None
    used: float
    left: float | None


class BudgetDocument(BaseModel):
    """A budget, what was used of it and what is left."""

    id: int
    name: str = Field(description="Empty for the budget of one job.")
    trials: TrialUse
    seconds: TimeUse
    board_seconds: TimeUse
    deadline: Moment | None
    over: Literal["trials", "time", "board-time", "deadline"] | None = Field(
        description="Which limit is reached; null while none is."
    )
    created_at: Moment | None

    @classmethod
    def of(cls, use: BudgetUse) -> BudgetDocument:
        limits = use.limits
        return cls.model_validate(
            {
                "id": use.id,
                "name": use.name,
                "trials": TrialUse(
                    limit=limits.trials,
                    spent=use.trials_spent,
                    in_flight=use.trials_in_flight,
                    left=use.trials_left,
                ),
                "seconds": TimeUse(
                    limit=limits.seconds, used=use.used_seconds, left=use.seconds_left
                ),
                "board_seconds": TimeUse(
                    limit=limits.board_seconds,
                    used=use.board_seconds,
                    left=use.board_seconds_left,
                ),
                "deadline": limits.deadline,
                "over": use.over,
                "created_at": use.created_at,
            }
        )


class LatencyDocument(BaseModel):
    """Seconds of the whole model: unscheduled, with the best schedules found, and with those that
    a build is served. Null where not every task has one."""

    untuned: float | None
    best: float | None
    served: float | None


class TaskDocument(BaseModel):
    """A workload of a job and what was measured of it, in seconds of one call."""

    key: str
    weight: int = Field(description="How often the model calls it.")
    trials: int
    untuned_seconds: float | None
    best_seconds: float | None
    served_seconds: float | None
    gain_per_trial: float = Field(
        description="Seconds of the model's latency that its next trial is expected to save."
    )
    exhausted: bool = Field(description="The search finds hardly anything new any more.")
    failures: dict[str, int] = Field(description="How many trials failed in which way.")

    @classmethod
    def of(cls, task: TaskState) -> TaskDocument:
        return cls(
            key=str(task.key),
            weight=task.weight,
            trials=task.trials,
            untuned_seconds=task.untuned_seconds,
            best_seconds=task.best_seconds,
            served_seconds=task.served_seconds,
            gain_per_trial=0.0 if task.exhausted else expected_saving(task, 1),
            exhausted=task.exhausted,
            failures={error.value: count for error, count in task.failures.items()},
        )


class JobSummary(BaseModel):
    """A job as a list shows it."""

    id: int
    name: str
    state: JobState
    reason: str = Field(description="Why it ended, or why it waits.")
    waiting_for: str = Field(description="The board class that nobody serves, else empty.")
    model: Digest
    shapes: dict[str, list[int]]
    target: str
    board_class: str
    emulated: bool
    priority: float
    layout: Literal["NCHW", "NHWC"]
    created_at: Moment
    finished_at: Moment | None
    last_event: int = Field(description="The number of its newest event.")
    budget: BudgetDocument


class JobDocument(JobSummary):
    """A job with its tasks, which are known once the model was split, and the log of a failure."""

    trials: int = Field(description="Those that this job was charged; tasks count all there are.")
    latency: LatencyDocument
    tasks: list[TaskDocument]
    log: str


def shapes_text(shapes: dict[str, list[int]]) -> str:
    """Shapes as they are stored: `a=1,3 b=2,2`, sorted by name."""
    return " ".join(f"{name}={','.join(map(str, shapes[name]))}" for name in sorted(shapes))


def shapes_of(text: str) -> dict[str, list[int]]:
    """Reads what `shapes_text` gives."""
    shapes = {}
    for one in text.split():
        name, _, sizes = one.rpartition("=")
        shapes[name] = [int(size) for size in sizes.split(",")]
    return shapes


def job_summary(job: Job) -> JobSummary:
    return JobSummary(**_summary(job))


def job_document(job: Job, tasks: Sequence[TaskState], trials: int) -> JobDocument:
    return JobDocument(
        **_summary(job),
        trials=trials,
        latency=LatencyDocument(
            untuned=_latency(tasks, [task.untuned_seconds for task in tasks]),
            best=_latency(tasks, [task.best_seconds for task in tasks]),
            served=_latency(tasks, [task.served_seconds for task in tasks]),
        ),
        tasks=[TaskDocument.of(task) for task in tasks],
        log=job.log,
    )


def _summary(job: Job) -> dict[str, Any]:
    request = job.request
    return {
        "id": job.id,
        "name": request.name,
        "state": job.state,
        "reason": job.reason,
        "waiting_for": job.waiting_for,
        "model": request.digest,
        "shapes": shapes_of(request.shapes),
        "target": request.target,
        "board_class": request.board_class,
        "emulated": job.emulated,
        "priority": request.priority,
        "layout": Choices.parse(request.choices).layout,
        "created_at": job.created_at,
        "finished_at": job.finished_at,
        "last_event": job.last_event,
        "budget": BudgetDocument.of(job.budget),
    }


def _latency(tasks: Sequence[TaskState], seconds: Sequence[float | None]) -> float | None:
    """The sum over all calls; None where a task has none, or there are none."""
    known = [one for one in seconds if one is not None]
    if not tasks or len(known) < len(tasks):
        return None
    return sum(task.weight * one for task, one in zip(tasks, known, strict=True))
