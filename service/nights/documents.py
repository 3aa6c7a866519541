"""What a coordinator says of budgets, jobs and schedules, as a night reads it.

Fields that a night has no use for are left out, so that a newer coordinator may say more.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from tunebook.cache.keys import ScheduleKey

_ENDED = ("done", "failed", "cancelled")
_WAITING = "waiting"


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True)


class TrialsDocument(_Document):
    """Trials of a budget; without a limit the first and the last are None."""

    limit: int | None
    spent: int
    left: int | None


class SecondsDocument(_Document):
    """Seconds of a budget; without a limit the first and the last are None."""

    limit: float | None
    used: float
    left: float | None


class BudgetDocument(_Document):
    """A budget and what was used of it; `over` names the limit that is reached."""

    id: int
    name: str = ""
    trials: TrialsDocument
    seconds: SecondsDocument
    board_seconds: SecondsDocument
    deadline: datetime | None
    over: str | None


class LatencyDocument(_Document):
    """Seconds of a model, with what a build is served; None where a task has nothing."""

    served: float | None


class TaskDocument(_Document):
    """A task of a job; `trials` are all that its workload ever had on the target."""

    key: str
    weight: int
    trials: int
    untuned_seconds: float | None
    served_seconds: float | None
    gain_per_trial: float
    exhausted: bool
    failures: dict[str, int] = {}


class JobDocument(_Document):
    """A job; its tasks, its log and the `trials` that it was charged are left out of lists."""

    id: int
    name: str = ""
    state: str
    reason: str = ""
    waiting_for: str = ""
    model: str
    shapes: dict[str, tuple[int, ...]]
    target: str
    board_class: str
    layout: str
    priority: float
    trials: int = 0
    budget: BudgetDocument
    latency: LatencyDocument | None = None
    tasks: tuple[TaskDocument, ...] = ()
    log: str = ""

    @property
    def has_ended(self) -> bool:
        return self.state in _ENDED

    @property
    def waits(self) -> bool:
        """Whether nobody who is alive has boards of its class."""
        return self.state == _WAITING

    @property
    def compiler(self) -> str | None:
        """The compiler that split its model; None before it was split."""
        return ScheduleKey.parse(self.tasks[0].key).compiler if self.tasks else None


class PageDocument(_Document):
    """A page of a list; `next` leads to the next one."""

    items: list[Any]
    next: str | None = None


class BoardWorkerDocument(_Document):
    """A worker that has a board, with its compiler."""

    compiler: str = ""


class BoardDocument(_Document):
    """A board, and the workers that have it now."""

    cores: int | None
    workers: list[BoardWorkerDocument] = []


class ClassDefaultsDocument(_Document):
    """What the targets of a class have unless they say otherwise."""

    num_cores: int
    mtriple: str
    mcpu: str = ""


class BoardClassDocument(_Document):
    """The boards of a class, and what completes its targets."""

    board_class: str
    defaults: ClassDefaultsDocument | None = None
    boards: list[BoardDocument]


class DemandDocument(_Document):
    """What a plan takes."""

    trials: int


class ExpectedGain(_Document):
    """What another hour is expected to bring the job at this place in a plan; latencies in
    seconds, `share` what the model is expected to lose of its own."""

    job: int
    latency: float
    expected_latency: float
    share: float


class PlanDocument(_Document):
    """What a plan takes, and what another hour would bring."""

    demand: DemandDocument
    another_hour: list[ExpectedGain]


class Standing(_Document):
    """What the cache has for a model on a target: the run time of each schedule that hits, by key,
    and the keys that miss."""

    hits: dict[str, float]
    misses: tuple[str, ...]

    @property
    def wanted(self) -> int:
        return len(self.hits) + len(self.misses)


def served_latency(tasks: Sequence[TaskDocument], hits: dict[str, float]) -> float | None:
    """Seconds of a model whose hits run as served and the others untuned, times their weights;
    None where a task that does not hit was never timed."""
    total = 0.0
    for task in tasks:
        seconds = hits.get(task.key, task.untuned_seconds)
        if seconds is None:
            return None
        total += task.weight * seconds
    return total if tasks else None


def untuned_latency(tasks: Sequence[TaskDocument]) -> float | None:
    """Seconds of a model that runs untuned, times their weights; None where a task is not timed."""
    return served_latency(tasks, {})
