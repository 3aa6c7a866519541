"""How a night looks while it goes on: bars on a terminal, else a line for each change."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from types import TracebackType

from rich.progress import BarColumn, TaskID, TextColumn

from tunebook.service.durations import show_duration
from tunebook.service.nights.documents import BudgetDocument, JobDocument
from tunebook.service.nights.night_progress import NightProgress
from tunebook.service.output import printable, progress_bars

# More running jobs than these are counted only.
_SHOWN_JOBS = 8


class NightProgressView:
    """A bar for the budget and a line for each running job on a terminal; in a file, a line on
    stderr whenever a job is somewhere else. `now` is aware."""

    def __init__(self, now: Callable[[], datetime], *, quiet: bool) -> None:
        self._now = now
        self._bars = progress_bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[told]}", markup=False),
            quiet=quiet,
            # Drawing it ten times a second would disturb what is measured on this machine.
            auto_refresh=False,
        )
        self._lines = self._bars.disable and not quiet
        self._night: TaskID | None = None
        self._jobs: dict[int, TaskID] = {}
        self._states: dict[int, str] = {}

    def __enter__(self) -> NightProgressView:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def tell(self, text: str) -> None:
        """One thing that happened."""
        line = printable(" ".join(text.split()))
        if self._lines:
            print(line, file=sys.stderr)
        elif not self._bars.disable:
            self._bars.console.print(line, markup=False, highlight=False)

    def show(self, progress: NightProgress) -> None:
        """Where the night stands now."""
        self._tell_changes(progress)
        if self._bars.disable:
            return
        done, total = _share_used(progress.budget)
        if self._night is None:
            self._night = self._bars.add_task("night", total=None, told="")
        self._bars.update(
            self._night, completed=done, total=total, told=_told(progress, self._now())
        )
        self._show_jobs(progress)
        self._bars.refresh()

    def _show_jobs(self, progress: NightProgress) -> None:
        running = {
            job.id: label for label, job in progress.jobs if not job.has_ended and not job.waits
        }
        for number in [one for one in self._jobs if one not in running]:
            self._bars.remove_task(self._jobs.pop(number))
        states = {job.id: job.state for _, job in progress.jobs}
        for number, label in list(running.items())[:_SHOWN_JOBS]:
            if number not in self._jobs:
                self._jobs[number] = self._bars.add_task(label, total=None, told="")
            self._bars.update(self._jobs[number], told=states[number])

    def _tell_changes(self, progress: NightProgress) -> None:
        for label, job in progress.jobs:
            if self._states.get(job.id) != job.state:
                self._states[job.id] = job.state
                if self._lines or job.has_ended:
                    self.tell(f"{label}: {_state(job)}")


def _state(job: JobDocument) -> str:
    return f"{job.state} ({job.reason})" if job.reason else job.state


def _told(progress: NightProgress, now: datetime) -> str:
    counts = Counter(job.state for _, job in progress.jobs)
    told = [", ".join(f"{count} {state}" for state, count in counts.items())]
    classes = sorted({job.waiting_for for _, job in progress.jobs if job.waits})
    if classes:
        told.append(f"no boards of {', '.join(classes)}")
    budget = progress.budget
    told.append(f"{budget.trials.spent} trials")
    if budget.deadline is not None:
        left = max(0.0, (budget.deadline - now).total_seconds())
        told.append(f"{show_duration(left)} left")
    return "; ".join(told)


def _share_used(budget: BudgetDocument) -> tuple[float | None, float | None]:
    """How far the budget is used, by that of its limits which is used most."""
    shares = [
        used / limit
        for used, limit in (
            (budget.trials.spent, budget.trials.limit),
            (budget.seconds.used, budget.seconds.limit),
            (budget.board_seconds.used, budget.board_seconds.limit),
        )
        if limit
    ]
    return (min(1.0, max(shares)), 1.0) if shares else (None, None)
