"""Which task gets the next round: where a trial is expected to save most end-to-end time.

The rule is the gradient of Ansor's task scheduler (Zheng et al., OSDI 2020, section 6.2) without
its comparison of similar tasks, as TVM's own scheduler has it: the slope of the recent past mixed
with an optimistic guess of what is still possible.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tunebook.cache.store import RoundProposal, TaskState

# How much the past weighs against the optimistic guess, and how many rounds count as the past.
_PAST_WEIGHT = 0.2
_PAST_ROUNDS = 3
# A task whose kernels only failed so far is worth trying again, less each time.
_FAILED_GAIN = 1e-3


@dataclass(frozen=True)
class RoundSizes:
    """How many trials a task's first round and its later rounds get.

    `first_share` of all trials is spent on first rounds, by each task's share of the untuned
    latency; a task always gets at least one.
    """

    largest: int = 16
    first_share: float = 0.4


def propose_rounds(
    tasks: Sequence[TaskState], trials_left: int, trials_total: int, sizes: RoundSizes
) -> list[RoundProposal]:
    """The rounds worth running next, highest gain first.

    `trials_left` and `trials_total` are the budget's. Gains are seconds of end-to-end latency
    expected per trial. While tasks without any trial remain, only their rounds are proposed, and
    together they never ask for more than `trials_left`. Exhausted tasks get nothing.
    """
    open_tasks = [task for task in tasks if not task.exhausted]
    if trials_left <= 0 or not open_tasks:
        return []
    untried = [task for task in open_tasks if task.trials == 0]
    if untried:
        proposals = _first_rounds(untried, tasks, trials_left, trials_total, sizes)
    else:
        proposals = [
            RoundProposal(task.id, min(sizes.largest, trials_left), _gain(task))
            for task in open_tasks
        ]
    return sorted(proposals, key=lambda proposal: -proposal.gain)


def _first_rounds(
    untried: Sequence[TaskState],
    tasks: Sequence[TaskState],
    trials_left: int,
    trials_total: int,
    sizes: RoundSizes,
) -> list[RoundProposal]:
    latency = sum(_untuned_latency(task) for task in tasks) or 1.0
    spare = trials_left - len(untried)
    proposals = []
    for task in sorted(untried, key=_untuned_latency, reverse=True):
        share = _untuned_latency(task) / latency
        wanted = min(sizes.largest, round(share * trials_total * sizes.first_share))
        extra = max(0, min(wanted - 1, spare))
        spare -= extra
        proposals.append(RoundProposal(task.id, 1 + extra, _untuned_latency(task)))
    return proposals[:trials_left]


def _untuned_latency(task: TaskState) -> float:
    return task.weight * (task.untuned_seconds or 0.0)


def _gain(task: TaskState) -> float:
    if task.best_seconds is None:
        return _untuned_latency(task) * _FAILED_GAIN / task.trials
    past = _past_slope(task)
    possible = task.best_seconds / task.trials
    return task.weight * (_PAST_WEIGHT * past + (1 - _PAST_WEIGHT) * possible)


def _past_slope(task: TaskState) -> float:
    """Seconds won per trial over the last rounds."""
    reached = [seconds for seconds in task.history if math.isfinite(seconds)]
    window = reached[-(_PAST_ROUNDS + 1) :]
    if len(window) < 2:
        return 0.0
    trials_a_round = task.trials / len(task.history)
    return max(0.0, window[0] - window[-1]) / ((len(window) - 1) * trials_a_round)
