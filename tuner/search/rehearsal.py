"""Plays the allocation forward without a board: which rounds would run, one after the other.

What a round brings is told from outside: by a recorded history, or by what is expected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tunebook.cache.work import RoundProposal, TaskState
from tunebook.tuner.search.allocation import RoundSizes, expected_seconds_per_trial, propose_rounds

# A job's number, a task and a number of trials become the task after a round of them.
RoundOutcome = Callable[[int, TaskState, int], TaskState]


@dataclass(frozen=True)
class RehearsedRound:
    """A round that was played: of which job and task, how many trials, and what it took."""

    job: int
    task_id: int
    trials: int
    seconds: float


class Rehearsal:
    """Jobs that share one budget of trials and one board, a round at a time.

    `jobs` holds their tasks as they stand now. A round is chosen as workers choose: each job
    proposes, and the highest gain of all is claimed. What is spent never exceeds `trials`.
    """

    def __init__(
        self,
        jobs: Sequence[Sequence[TaskState]],
        trials: int,
        sizes: RoundSizes,
        outcome: RoundOutcome,
        *,
        priorities: Sequence[float] | None = None,
    ) -> None:
        self.jobs = [list(tasks) for tasks in jobs]
        self.trials_left = trials
        self._trials_total = trials
        self._sizes = sizes
        self._outcome = outcome
        self._priorities = priorities or [1.0] * len(self.jobs)
        self._untried = [_untried(tasks) for tasks in self.jobs]
        self._untried_of_all = sum(self._untried)
        self._proposals: list[list[RoundProposal] | None] = [None] * len(self.jobs)

    def step(self) -> RehearsedRound | None:
        """Plays the next round; None once the trials are spent or nothing is left to try."""
        best = max(
            (
                (proposals[0], job)
                for job in range(len(self.jobs))
                if (proposals := self._propose(job))
            ),
            key=lambda one: one[0].gain,
            default=None,
        )
        if best is None:
            return None
        proposal, job = best
        tasks = self.jobs[job]
        place = next(n for n, task in enumerate(tasks) if task.id == proposal.task_id)
        before = tasks[place]
        tasks[place] = self._outcome(job, before, proposal.size)
        trials = tasks[place].trials - before.trials
        self.trials_left -= trials
        self._untried_of_all -= self._untried[job]
        self._untried[job] = _untried(tasks)
        self._untried_of_all += self._untried[job]
        self._proposals[job] = None
        rate = expected_seconds_per_trial(tasks[place], tasks, self._sizes)
        return RehearsedRound(job, before.id, trials, trials * rate)

    def _propose(self, job: int) -> list[RoundProposal]:
        proposals = self._proposals[job]
        if proposals is None or self._may_be_short(job):
            proposals = propose_rounds(
                self.jobs[job],
                self.trials_left,
                max(1, self._trials_total // len(self.jobs)),
                self._sizes,
                priority=self._priorities[job],
                untried_elsewhere=self._untried_of_all - self._untried[job],
            )
            self._proposals[job] = proposals
        return proposals

    def _may_be_short(self, job: int) -> bool:
        """Whether what other jobs spent may have left less than this one proposed."""
        rounds = max(1, self._untried[job])
        return self.trials_left < self._untried_of_all + rounds * self._sizes.largest


def _untried(tasks: Sequence[TaskState]) -> int:
    return sum(task.trials == 0 and not task.exhausted for task in tasks)
