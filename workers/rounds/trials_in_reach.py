"""How many trials a budget allows, where time limits it too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from tunebook.cache.queue.submissions import BudgetUse
from tunebook.cache.store import TaskState
from tunebook.cache.work import UNLIMITED_TRIALS
from tunebook.tuner.search.allocation import mean_seconds_per_trial


@dataclass(frozen=True)
class TrialsInReach:
    """`left` may still be begun, at the rate measured so far; `total` is what the budget was made
    for."""

    left: int
    total: int


def trials_in_reach(
    budget: BudgetUse, tasks: Sequence[TaskState], now: datetime | None = None
) -> TrialsInReach:
    """The trials of a budget that is not over, of which none is a limit that is never reached.

    Seconds, board seconds and the time until the deadline are turned into trials by what trials of
    `tasks` took on average; `now` is the wall clock, which the deadline goes by.
    """
    seconds = mean_seconds_per_trial(tasks)
    board_seconds = _mean_board_seconds(tasks) or seconds
    limits = budget.limits
    left = [UNLIMITED_TRIALS if budget.trials_left is None else budget.trials_left]
    total = [UNLIMITED_TRIALS if limits.trials is None else limits.trials]
    if limits.seconds is not None and budget.seconds_left is not None:
        left.append(math.ceil(budget.seconds_left / seconds))
        total.append(math.ceil(limits.seconds / seconds))
    if limits.board_seconds is not None and budget.board_seconds_left is not None:
        left.append(math.ceil(budget.board_seconds_left / board_seconds))
        total.append(math.ceil(limits.board_seconds / board_seconds))
    if limits.deadline is not None:
        moment = now or datetime.now(timezone.utc)
        begun = budget.created_at or moment
        left.append(math.ceil(max(0.0, (limits.deadline - moment).total_seconds()) / seconds))
        total.append(math.ceil(max(0.0, (limits.deadline - begun).total_seconds()) / seconds))
    return TrialsInReach(min(left), max(1, min(total)))


def _mean_board_seconds(tasks: Sequence[TaskState]) -> float | None:
    measured = [task for task in tasks if task.board_seconds_per_trial and task.trials]
    if not measured:
        return None
    spent = sum((task.board_seconds_per_trial or 0.0) * task.trials for task in measured)
    return spent / sum(task.trials for task in measured)
