"""Which task gets the next round: where a second of tuning is expected to save most of a model.

The rule is that of Ansor's task scheduler (Zheng et al., OSDI 2020, section 6.2): tasks compete by
the gradient of the models' latencies, guessed from each task's own past and from an optimistic
bound that shrinks with its trials. What is added to it:

- The guess is one curve. With trials the best time falls as `trials ** -exponent`; the exponent is
  estimated from the task's rounds against an optimistic prior, as the rate of a process with a
  gamma prior is, and shrinks with each round that wins nothing. An exponent of one is Ansor's
  optimistic guess, and the bound: so many trials again halve the time.
- Gains are shares of the model's present latency, so that models and targets of all speeds compete
  under one budget, times the job's priority.
- They are divided by the seconds that the round is expected to take, not by its trials.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tunebook.cache.work import RoundProposal, TaskState

# The prior of the exponent: what tasks show on average, and how much of a task's own past (in
# natural logarithms of trials) weighs as much.
_PRIOR_EXPONENT = 0.5
_PRIOR_WEIGHT = 1.0
_LARGEST_EXPONENT = 1.0
# What best times differ by without one being better.
_NOISE = 0.01
# What a first success is expected to save of a task whose trials all failed so far.
_FIRST_SUCCESS = 0.3
# A task without any schedule makes every build of its model miss: it comes before all gains.
_BEFORE_ALL_GAINS = 1e3
# Where nothing was measured yet.
DEFAULT_SECONDS_PER_TRIAL = 1.0


@dataclass(frozen=True)
class RoundSizes:
    """How many trials a task's first round and its later rounds get.

    `first_share` of all trials is spent on first rounds, by each task's share of the untuned
    latency; a task always gets at least one.
    """

    largest: int = 16
    first_share: float = 0.4


def propose_rounds(
    tasks: Sequence[TaskState],
    trials_left: int,
    trials_total: int,
    sizes: RoundSizes,
    *,
    priority: float = 1.0,
    untried_elsewhere: int = 0,
) -> list[RoundProposal]:
    """The rounds of a job worth running next, highest gain first.

    `tasks` are all tasks of the job, `trials_left` and `trials_total` what its budget has. Where
    jobs share the budget, `trials_total` is this job's share of it, and `untried_elsewhere` how
    many tasks of the others wait for their first trial. Gains are shares of the model's latency a
    second of tuning, times `priority`: comparable between jobs of all models and targets. While
    tasks without any trial remain, only their rounds are proposed, before all others; together
    they leave the others one trial each where that is possible, and never ask for more than
    `trials_left`. Exhausted tasks get nothing.
    """
    open_tasks = [task for task in tasks if not task.exhausted]
    if trials_left <= 0 or not open_tasks:
        return []
    untried = [task for task in open_tasks if task.trials == 0]
    if untried:
        spare = trials_left - len(untried) - untried_elsewhere
        proposals = _first_rounds(untried, tasks, spare, trials_total, sizes, priority)
        proposals = proposals[:trials_left]
    else:
        size = min(sizes.largest, trials_left)
        latency = present_latency(tasks)
        proposals = [
            RoundProposal(
                task.id,
                size,
                priority
                * expected_saving(task, size)
                / (latency * size * expected_seconds_per_trial(task, tasks, sizes)),
            )
            for task in open_tasks
        ]
    return sorted(proposals, key=lambda proposal: -proposal.gain)


def present_latency(tasks: Sequence[TaskState]) -> float:
    """Seconds of a model: its tasks with the best schedules so far, or untuned, by their weights.
    One second where nothing is known."""
    return sum(_present_seconds(task) for task in tasks) or 1.0


def expected_saving(task: TaskState, trials: int) -> float:
    """Seconds of its model's latency that so many further trials of a task are expected to save."""
    if task.best_seconds is None:
        # Trials fail for a common cause more often than each for its own: every round of them
        # halves the hope.
        return math.pow(0.5, len(task.history) + 1) * _FIRST_SUCCESS * _present_seconds(task)
    return task.weight * (task.best_seconds - expected_best(task, trials))


def expected_best(task: TaskState, trials: int) -> float:
    """Seconds of a task's best schedule after so many further trials; it has one already."""
    assert task.best_seconds is not None
    share = task.trials / (task.trials + trials)
    expected = task.best_seconds * math.pow(share, improvement_exponent(task))
    if task.untuned_seconds is None or sum(map(math.isfinite, task.history)) > 1:
        return expected
    # Where its first schedules are slower than the program as it is, a search tries that next.
    return min(expected, task.untuned_seconds)


def improvement_exponent(task: TaskState) -> float:
    """How fast a task still improves: its best time is expected to fall as
    `trials ** -exponent`; from 0 (not at all) to 1 (twice the trials halve it).

    The estimate is what the task won between its first round with a result and its last, against
    the trials that this took, both in logarithms, and against what the prior expects.
    """
    # Only the ratio counts: where the trials of the rounds are not known, their numbers do.
    trials = task.history_trials or range(1, len(task.history) + 1)
    rounds = [
        (count, seconds)
        for count, seconds in zip(trials, task.history, strict=True)
        if math.isfinite(seconds) and seconds > 0 and count > 0
    ]
    reached = [seconds for _, seconds in rounds]
    won = passed = 0.0
    if len(rounds) > 1:
        won = math.log(reached[0] / reached[-1])
        passed = math.log(rounds[-1][0] / rounds[0][0])
    estimate = (_PRIOR_WEIGHT * _PRIOR_EXPONENT + won) / (_PRIOR_WEIGHT + passed)
    return min(_LARGEST_EXPONENT, max(0.0, estimate)) * _chance_to_go_on(reached)


def _chance_to_go_on(reached: Sequence[float]) -> float:
    """How likely a task that has won nothing for some rounds is to win again: a search comes to an
    end, which a curve without one does not know. Laplace's rule of succession over those rounds."""
    stalled = sum(seconds <= reached[-1] * (1 + _NOISE) for seconds in reached[:-1])
    return 2 / (2 + stalled)


def expected_seconds_per_trial(
    task: TaskState, tasks: Sequence[TaskState], sizes: RoundSizes
) -> float:
    """What a trial of a task takes: as measured, drawn towards the mean of its job as by one round
    of that mean, since a single short round says little."""
    mean = mean_seconds_per_trial(tasks)
    if task.seconds_per_trial is None:
        return mean
    measured = task.seconds_per_trial * task.trials
    return (measured + mean * sizes.largest) / (task.trials + sizes.largest)


def mean_seconds_per_trial(tasks: Sequence[TaskState]) -> float:
    """Seconds of a trial over all tasks of a job; DEFAULT_SECONDS_PER_TRIAL before the first."""
    measured = [task for task in tasks if task.seconds_per_trial and task.trials]
    if not measured:
        return DEFAULT_SECONDS_PER_TRIAL
    seconds = sum((task.seconds_per_trial or 0.0) * task.trials for task in measured)
    return seconds / sum(task.trials for task in measured)


def _first_rounds(
    untried: Sequence[TaskState],
    tasks: Sequence[TaskState],
    spare: int,
    trials_total: int,
    sizes: RoundSizes,
    priority: float,
) -> list[RoundProposal]:
    """One trial for each, and `spare` ones shared out by latency."""
    latency = sum(_untuned_seconds(task) for task in tasks) or 1.0
    seconds = mean_seconds_per_trial(tasks)
    proposals = []
    for task in sorted(untried, key=_untuned_seconds, reverse=True):
        share = _untuned_seconds(task) / latency
        wanted = min(
            sizes.largest,
            round(share * trials_total * sizes.first_share),
            # Less than an average task has of the latency is worth less than a whole round.
            math.ceil(share * len(tasks) * sizes.largest),
        )
        extra = max(0, min(wanted - 1, spare))
        spare -= extra
        gain = _BEFORE_ALL_GAINS + priority * share / seconds
        proposals.append(RoundProposal(task.id, 1 + extra, gain))
    return proposals


def _untuned_seconds(task: TaskState) -> float:
    return task.weight * (task.untuned_seconds or 0.0)


def _present_seconds(task: TaskState) -> float:
    seconds = task.untuned_seconds if task.best_seconds is None else task.best_seconds
    return task.weight * (seconds or 0.0)
