"""Jobs as documents: what is answered about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from tunebook.cache.queue.submissions import Job, JobState
from tunebook.cache.work import TaskState
from tunebook.service.api.documents.budget_models import BudgetDocument
from tunebook.service.api.documents.field_types import Moment
from tunebook.service.given_fields import EXAMPLE_DIGEST, EXAMPLE_TARGET, Digest
from tunebook.service.input_shapes import read_shapes
from tunebook.tuner.search.allocation import expected_saving
from tunebook.tuner.splitting.choices import Choices

_KEY = (
    "conv2d+add+relu | f32[1,64,56,56] f32[64,64,3,3] f32[1,64,1,1] -> f32[1,64,54,54] | "
    f"{EXAMPLE_TARGET} | tvm-0.27.0+llvm-22 | 8ff98e478c702f8d"
)
# Without any null: the OpenAPI document would leave it out.
EXAMPLE_JOB: dict[str, JsonValue] = {
    "id": 7,
    "name": "resnet50 for the camera",
    "state": "done",
    "reason": "trials",
    "waiting_for": "",
    "model": EXAMPLE_DIGEST,
    "shapes": {"input": [1, 3, 224, 224]},
    "target": EXAMPLE_TARGET,
    "board_class": "rpi5",
    "emulated": False,
    "priority": 1.0,
    "layout": "NCHW",
    "created_at": "2026-11-30T02:00:00Z",
    "finished_at": "2026-11-30T02:31:00Z",
    "last_event": 9,
    "budget": {
        "id": 3,
        "name": "",
        "trials": {"limit": 1200, "spent": 1200, "in_flight": 0, "left": 0},
        "seconds": {"limit": 3600.0, "used": 1815.5, "left": 1784.5},
        "board_seconds": {"limit": 900.0, "used": 480.0, "left": 420.0},
        "deadline": "2030-01-02T06:00:00Z",
        "over": "trials",
        "created_at": "2026-11-30T02:00:00Z",
    },
    "trials": 1200,
    "latency": {"untuned": 0.212, "best": 0.064, "served": 0.065},
    "tasks": [
        {
            "key": _KEY,
            "weight": 3,
            "trials": 1200,
            "untuned_seconds": 0.0707,
            "best_seconds": 0.0213,
            "served_seconds": 0.0217,
            "gain_per_trial": 0.0002,
            "exhausted": False,
            "failures": {"compile-timeout": 2},
        }
    ],
    "log": "",
}


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
    last_event: int = Field(
        description="The number of its newest event; 0 where its events are forgotten."
    )
    budget: BudgetDocument


class JobDocument(JobSummary):
    """A job with its tasks, which are known once the model was split, and the log of a failure."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE_JOB]})

    trials: int = Field(description="Those that this job was charged; tasks count all there are.")
    latency: LatencyDocument
    tasks: list[TaskDocument]
    log: str


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
        "shapes": read_shapes(request.shapes),
        "target": request.target,
        "board_class": request.board_class,
        "emulated": request.emulated,
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
