"""Jobs as a page shows them: at what they are, and how much of their budget is used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tunebook.cache.queue.job_events import ROUND
from tunebook.cache.queue.submissions import OPEN, BudgetUse, Job, JobFilter
from tunebook.cache.store import Store
from tunebook.service.dashboard.moments import Moment
from tunebook.service.dashboard.target_labels import target_labels
from tunebook.service.durations import show_duration
from tunebook.service.output import show_seconds

_SHOWN = 25
_DIGEST = 12
# Between two rounds a job has few other events.
_LAST_EVENTS = 10


@dataclass(frozen=True)
class JobRow:
    """A job that is not over. `percent` is how far the most used part of its budget is; None where
    nothing of it is limited but by a deadline. `said` says what it waits for, or what its latest
    round came to."""

    id: int
    name: str
    model: str
    state: str
    said: str
    label: str
    target: str
    board_class: str
    percent: int | None
    budget: tuple[str, ...]


@dataclass(frozen=True)
class JobRows:
    """The newest jobs that are not over; `more` where there are more than are shown."""

    rows: tuple[JobRow, ...]
    more: bool


def job_rows(store: Store) -> JobRows:
    """The jobs that are not over, newest first."""
    found = store.queue.jobs(JobFilter(states=OPEN), after=None, limit=_SHOWN + 1)
    shown = found[:_SHOWN]
    labels = target_labels(job.request.target for job in shown)
    rows = tuple(_row(store, job, labels[job.request.target]) for job in shown)
    return JobRows(rows, more=len(found) > _SHOWN)


def _row(store: Store, job: Job, label: str) -> JobRow:
    request = job.request
    return JobRow(
        id=job.id,
        name=request.name or f"job {job.id}",
        model=request.digest[:_DIGEST],
        state=job.state.value,
        said=job.reason or _latest_round(store, job),
        label=label,
        target=request.target,
        board_class=request.board_class,
        percent=_percent(job.budget),
        budget=tuple(_budget_lines(job.budget)),
    )


def _latest_round(store: Store, job: Job) -> str:
    """What the model is expected to take after the newest round among the last events."""
    events = store.queue.events(job.id, after=max(0, job.last_event - _LAST_EVENTS))
    seconds = [event.data.get("latency_seconds") for event in events if event.kind == ROUND]
    known = [one for one in seconds if one is not None]
    return f"expected latency {show_seconds(known[-1])}" if known else ""


def _percent(budget: BudgetUse) -> int | None:
    parts = (
        (budget.trials_spent, budget.limits.trials),
        (budget.used_seconds, budget.limits.seconds),
        (budget.board_seconds, budget.limits.board_seconds),
    )
    used = [spent / limit for spent, limit in parts if limit]
    return min(100, int(100 * max(used))) if used else None


def _budget_lines(budget: BudgetUse) -> Iterable[str]:
    limits = budget.limits
    shared = f" of the budget {budget.name}" if budget.name else ""
    of_all = f" of {limits.trials:,}" if limits.trials is not None else ""
    yield f"{budget.trials_spent:,}{of_all} trials{shared}"
    if limits.seconds is not None:
        yield f"{show_duration(budget.used_seconds)} of {show_duration(limits.seconds)}"
    if limits.board_seconds is not None:
        used = show_duration(budget.board_seconds)
        yield f"{used} of {show_duration(limits.board_seconds)} on boards"
    if limits.deadline is not None:
        yield f"until {Moment(limits.deadline).text}"
