"""A night that is under way has to be the one that its file says."""

from __future__ import annotations

from tunebook.cache.errors import UsageError
from tunebook.service.nights.documents import BudgetDocument, JobDocument
from tunebook.service.nights.night_file import NightBudget
from tunebook.service.nights.night_jobs import NightJob


def require_same_budget(name: str, budget: BudgetDocument, limits: NightBudget) -> None:
    """Raises UsageError where a night that is under way has other limits than the file."""
    pairs = {
        "trials": (budget.trials.limit, limits.trials),
        "time": (budget.seconds.limit, limits.time),
        "board_time": (budget.board_seconds.limit, limits.board_time),
    }
    other = [field for field, (there, here) in pairs.items() if there != here]
    if other:
        raise UsageError(
            f"the night {name!r} is under way with another budget.{other[0]} "
            f"({pairs[other[0]][0]}); put it back, or start another night with --night NAME"
        )


def require_same_priority(name: str, job: NightJob, there: JobDocument) -> None:
    """Raises UsageError where a job of a night that is under way has another priority."""
    if there.priority != job.wanted.priority:
        raise UsageError(
            f"{job.label} was submitted to the night {name!r} with priority {there.priority:g}; "
            f"put it back, or start another night with --night NAME"
        )
