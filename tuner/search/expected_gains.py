"""What more tuning is expected to bring: the allocation played forward, a round at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tunebook.cache.work import UNLIMITED_TRIALS, TaskState
from tunebook.tuner.search.allocation import RoundSizes, expected_best, present_latency
from tunebook.tuner.search.forecast import PlannedJob, Room
from tunebook.tuner.search.rehearsal import Rehearsal

# In the long run twice the trials make a task a tenth faster at most.
_LASTING_EXPONENT = 0.15
# A first round is expected to make untuned code so much faster.
_FIRST_SPEED_UP = 2.0
# A forecast is to answer while somebody waits: where trials are short, rounds are larger.
_ROUNDS = 500


@dataclass(frozen=True)
class ExpectedGain:
    """What more tuning is expected to bring a model on a target; latencies in seconds. `job` is its
    number in the plan, from 0."""

    job: int
    model: str
    shapes: str
    target: str
    latency: float
    expected_latency: float
    trials: int

    @property
    def share(self) -> float:
        """The share of its latency that it is expected to lose."""
        return 1 - self.expected_latency / self.latency


def expect_after(
    jobs: Sequence[PlannedJob], room: Room, seconds: float, sizes: RoundSizes
) -> tuple[ExpectedGain, ...]:
    """What so many seconds more of all boards are expected to bring each job of which a latency is
    known, which one with a suspect best time of a task has not.

    The allocation is played forward, each task improving as it is expected to; jobs that share a
    class of boards compete for it. Trials are not limited.
    """
    known = {number: job for number, job in enumerate(jobs) if job.states}
    states: dict[int, Sequence[TaskState]] = {}
    trials = dict.fromkeys(known, 0)
    for board_class in {job.board_class for job in known.values()}:
        numbers = [n for n, job in known.items() if job.board_class == board_class]
        left = seconds * room.boards_of(board_class)
        rehearsal = Rehearsal(
            [_with_rates(known[n]) for n in numbers],
            UNLIMITED_TRIALS,
            _coarser(sizes, left, [known[n] for n in numbers]),
            _expected_round,
            priorities=[known[n].priority for n in numbers],
        )
        while left > 0 and (played := rehearsal.step()) is not None:
            left -= played.seconds
            trials[numbers[played.job]] += played.trials
        states.update(zip(numbers, rehearsal.jobs, strict=True))
    return tuple(
        ExpectedGain(
            number,
            job.model,
            job.shapes,
            job.target,
            present_latency(job.states),
            present_latency(states[number]),
            trials[number],
        )
        for number, job in known.items()
        if any(map(_was_timed, job.states)) and not any(t.best_is_suspect for t in job.states)
    )


def _was_timed(task: TaskState) -> bool:
    return task.untuned_seconds is not None or task.best_seconds is not None


def _coarser(sizes: RoundSizes, seconds: float, jobs: Sequence[PlannedJob]) -> RoundSizes:
    """Rounds so large that not many more than _ROUNDS of them fill the time."""
    trials = seconds / min(job.seconds_per_trial for job in jobs)
    return replace(sizes, largest=max(sizes.largest, math.ceil(trials / _ROUNDS)))


def _with_rates(job: PlannedJob) -> tuple[TaskState, ...]:
    return tuple(
        task
        if task.seconds_per_trial is not None
        else replace(task, seconds_per_trial=job.seconds_per_trial)
        for task in job.states
    )


def _expected_round(job: int, task: TaskState, trials: int) -> TaskState:
    del job
    if task.best_seconds is not None:
        # What improved fast so far does not go on so for an hour.
        lasting = task.best_seconds * math.pow(
            task.trials / (task.trials + trials), _LASTING_EXPONENT
        )
        best: float | None = max(lasting, expected_best(task, trials))
    elif task.trials == 0 and task.untuned_seconds is not None:
        best = task.untuned_seconds / _FIRST_SPEED_UP
    else:
        # Nothing is known, or all failed: nothing is promised.
        best = None
    reached = math.inf if best is None else best
    # Where the trials of its rounds are not known, the ratio of their numbers goes on.
    known = len(task.history_trials) == len(task.history)
    return replace(
        task,
        best_seconds=best,
        trials=task.trials + trials,
        history=(*task.history, reached),
        history_trials=(*task.history_trials, task.trials + trials) if known else (),
    )
