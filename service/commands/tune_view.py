"""How a tuning run looks: a progress bar while it runs, a table of its tasks at the end."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from pydantic import BaseModel
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.table import Table

from tunebook.cache.store import TaskState
from tunebook.service.durations import show_duration
from tunebook.service.output import print_table, print_text, progress_bars, show_seconds

if TYPE_CHECKING:
    from tunebook.workers.commands.tuning import TuneReport
    from tunebook.workers.rounds.progress import Progress as RunProgress


class TaskDocument(BaseModel):
    """A task as machines read it; times in seconds."""

    key: str
    weight: int
    trials: int
    untuned_seconds: float | None
    tuned_seconds: float | None
    speed_up: float | None
    failures: dict[str, int]


class TuneDocument(BaseModel):
    """A tuning run as machines read it; times in seconds."""

    model: str
    shapes: str
    target: str
    compiler: str
    trials: int
    trials_total: int
    trials_limit: int
    seconds: float
    ended: str
    untuned_latency_seconds: float | None
    tuned_latency_seconds: float | None
    tasks: list[TaskDocument]


class ProgressView:
    """A progress bar on stderr: trials, expected latency, time left."""

    def __init__(self, *, quiet: bool) -> None:
        self._bar = progress_bars(
            TextColumn("trials"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            quiet=quiet,
            # Drawing it ten times a second would disturb what is measured on this machine.
            auto_refresh=False,
        )
        self._task = self._bar.add_task("starting", total=None)

    def __enter__(self) -> ProgressView:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar.live.is_started:
            self._bar.stop()

    def show(self, progress: RunProgress) -> None:
        """Moves the bar, which appears with the first news."""
        self._bar.start()
        told = []
        if progress.latency is not None:
            told.append(f"best latency {show_seconds(progress.latency)}")
        if progress.seconds_left is not None:
            told.append(f"{show_duration(progress.seconds_left)} left")
        self._bar.update(
            self._task,
            completed=progress.trials,
            total=progress.trials_limit,
            description=f"{', '.join(told)}  {progress.activity}",
            refresh=True,
        )


def tune_document(report: TuneReport) -> TuneDocument:
    """A tuning run as machines read it."""
    return TuneDocument(
        model=report.model.digest,
        shapes=report.model.shapes,
        target=report.model.target,
        compiler=report.model.compiler,
        trials=report.run.trials,
        trials_total=report.budget.spent,
        trials_limit=report.budget.limit,
        seconds=report.run.seconds,
        ended=report.run.ended,
        untuned_latency_seconds=untuned_latency(report.tasks),
        tuned_latency_seconds=tuned_latency(report.tasks),
        tasks=[_task_document(task) for task in report.tasks],
    )


def print_tune_report(report: TuneReport) -> None:
    """The table of tasks, slowest untuned first, and what the run did."""
    table = Table(title=f"{report.model.target}  {report.model.compiler}", title_justify="left")
    table.add_column("key (op | buffers | hash)", overflow="fold")
    for name in ("weight", "trials", "untuned", "tuned", "speed-up"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("failures")
    for task in sorted(report.tasks, key=_untuned_share, reverse=True):
        table.add_row(
            f"{task.key.op} | {task.key.buffers} | {task.key.workload_hash}",
            str(task.weight),
            str(task.trials),
            show_seconds(task.untuned_seconds),
            show_seconds(task.served_seconds),
            _speed_up(task.untuned_seconds, task.served_seconds),
            ", ".join(f"{count} {error.value}" for error, count in task.failures.items()),
        )
    print_table(table)
    print_tune_summary(report)


def print_tune_summary(report: TuneReport) -> None:
    """What the run did, and how fast the model is now."""
    print_text(_summary(report))


def untuned_latency(tasks: Sequence[TaskState]) -> float | None:
    """Seconds of all tasks with untuned code, times their weights."""
    return _sum([_weighted(task, task.untuned_seconds) for task in tasks])


def tuned_latency(tasks: Sequence[TaskState]) -> float | None:
    """Seconds of all tasks with the served schedules, times their weights."""
    return _sum([_weighted(task, task.served_seconds) for task in tasks])


def _summary(report: TuneReport) -> str:
    budget = f"{report.budget.spent} of {report.budget.limit} trials spent"
    untuned, tuned = untuned_latency(report.tasks), tuned_latency(report.tasks)
    latency = f"Sum of tasks: untuned {show_seconds(untuned)}, tuned {show_seconds(tuned)}"
    speed_up = _speed_up(untuned, tuned)
    latency += f", {speed_up} times as fast" if speed_up != "-" else ""
    if report.run.trials == 0:
        return f"Nothing was measured: {_why_ended(report)} ({budget}; --more N adds). {latency}."
    return (
        f"{report.run.trials} trials in {show_duration(report.run.seconds)}, ended since "
        f"{_why_ended(report)} ({budget}). {latency}."
    )


def _why_ended(report: TuneReport) -> str:
    return {
        "budget": "the budget is spent",
        "time": "the time is over",
        "exhausted": "the search finds nothing new to try",
    }.get(report.run.ended, report.run.ended)


def _task_document(task: TaskState) -> TaskDocument:
    both = task.untuned_seconds and task.served_seconds
    return TaskDocument(
        key=str(task.key),
        weight=task.weight,
        trials=task.trials,
        untuned_seconds=task.untuned_seconds,
        tuned_seconds=task.served_seconds,
        speed_up=task.untuned_seconds / task.served_seconds if both else None,  # type: ignore[operator]
        failures={error.value: count for error, count in task.failures.items()},
    )


def _untuned_share(task: TaskState) -> float:
    return task.weight * (task.untuned_seconds or 0.0)


def _weighted(task: TaskState, seconds: float | None) -> float | None:
    return None if seconds is None else task.weight * seconds


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _speed_up(untuned: float | None, tuned: float | None) -> str:
    return f"{untuned / tuned:.2f}" if untuned and tuned else "-"
