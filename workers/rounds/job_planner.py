"""Which rounds a worker wants: planned for each job that is searched for, claimed over all."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.queue.submissions import OPEN, JobFilter, SearchingJob
from tunebook.cache.store import ClaimedRound, Store
from tunebook.tuner.compiler import compiler_text
from tunebook.tuner.search.allocation import RoundSizes, propose_rounds
from tunebook.workers.rounds.claims import claim_rounds
from tunebook.workers.rounds.trials_in_reach import trials_in_reach

_log = logging.getLogger(__name__)

_PLAN_ALL_SECONDS = 30.0
# While there is nothing to do planning takes at most this share of the time.
_IDLE_SHARE = 0.05
_IDLE_SECONDS = 1.0
_MOST_JOBS = 500


@dataclass(frozen=True)
class PlannedJob:
    """A job with the tasks that it had when it was planned last."""

    job: SearchingJob
    target: str
    keys: frozenset[ScheduleKey]
    untried: int

    def is_like(self, other: PlannedJob) -> bool:
        """Whether rounds of both can be run together: under one budget, on one workbench."""
        mine = self.target, self.job.board_class, self.job.budget_id
        return mine == (other.target, other.job.board_class, other.job.budget_id)


@dataclass(frozen=True)
class ClaimedBatch:
    """Rounds that are run together, and the budget that they are under."""

    rounds: tuple[ClaimedRound, ...]
    budget_id: int


class JobPlanner:
    """Plans for the loops of a lane.

    A job is planned when it appears, after rounds of its own or of a workload that it has, and with
    all others now and then, since other workers change what is worth while.
    """

    def __init__(
        self,
        store: Store,
        worker: str,
        sizes: RoundSizes,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._worker = worker
        self._sizes = sizes
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._planned: dict[int, PlannedJob] = {}
        self._left_out: dict[int, str] = {}
        self._touched: set[int] = set()
        self._separate: set[int] = set()
        self._sharing: Mapping[int, int] = {}
        self._plan_all_at = 0.0
        self._took = 0.0

    def claim(self, board_classes: Collection[str], trials: int) -> ClaimedBatch | None:
        """Claims the round with the highest gain of all jobs on these board classes, and more of
        its kind, until they hold so many trials; None where there is none."""
        with self._lock:
            self._plan(board_classes)
            planned = dict(self._planned)
        if not planned:
            return None
        first = self._store.claim_round(self._worker, job_ids=planned.keys(), searched=True)
        if first is None:
            return None
        left = trials - first.size
        alike = self._alike(first.job_id, planned)
        more = claim_rounds(self._store, self._worker, alike, left, searched=True)
        return ClaimedBatch((first, *more), planned[first.job_id].job.budget_id)

    def _alike(self, job_id: int, planned: Mapping[int, PlannedJob]) -> list[int]:
        if job_id in self._separate:
            return [job_id]
        others = {id: one for id, one in planned.items() if id not in self._separate}
        return [id for id, one in others.items() if one.is_like(planned[job_id])]

    def separate(self, job_ids: Collection[int]) -> None:
        """Rounds of these jobs are run with none of another job any more."""
        self._separate |= set(job_ids)

    def finished(self, batch: Collection[ClaimedRound]) -> None:
        """Rounds were run: what they touched is planned anew."""
        keys = {claimed.key for claimed in batch}
        with self._lock:
            self._touched |= {claimed.job_id for claimed in batch}
            self._touched |= {
                job_id for job_id, one in self._planned.items() if not keys.isdisjoint(one.keys)
            }

    def leave_out(self, job_id: int, reason: str) -> None:
        """This worker cannot work for a job; others may."""
        with self._lock:
            self._note_left_out(job_id, reason)
            self._planned.pop(job_id, None)

    def nothing_to_do(self) -> None:
        """All is planned again soon, since only others' work can change that."""
        pause = max(_IDLE_SECONDS, self._took / _IDLE_SHARE)
        with self._lock:
            self._plan_all_at = min(self._plan_all_at, self._monotonic() + pause)

    def _plan(self, board_classes: Collection[str]) -> None:
        found = {job.job_id: job for job in self._store.queue.searching(board_classes)}
        self._planned = {id: one for id, one in self._planned.items() if id in found}
        self._left_out = {id: text for id, text in self._left_out.items() if id in found}
        known = self._planned.keys() | self._left_out.keys()
        started = self._monotonic()
        if started >= self._plan_all_at or not found.keys() <= known:
            self._sharing = self._count_sharing(found.values())
            self._touched = set(found)
            self._plan_all_at = started + _PLAN_ALL_SECONDS
        for job_id in sorted(self._touched & found.keys()):
            self._plan_job(found[job_id])
        if self._touched >= found.keys():
            self._took = self._monotonic() - started
        self._touched = set()

    def _plan_job(self, job: SearchingJob) -> None:
        tasks = self._store.task_states(job.job_id)
        if not tasks:
            return
        compiler = tasks[0].key.compiler
        if compiler != compiler_text():
            reason = f"its model was split by {compiler}, and this worker has {compiler_text()}"
            self._note_left_out(job.job_id, reason)
            return
        if job.job_id in self._left_out:
            return
        untried = sum(task.trials == 0 and not task.exhausted for task in tasks)
        self._planned[job.job_id] = PlannedJob(
            job, tasks[0].key.target, frozenset(task.key for task in tasks), untried
        )
        reach = trials_in_reach(job.budget, tasks)
        proposals = propose_rounds(
            tasks,
            reach.left,
            max(1, reach.total // self._sharing.get(job.budget_id, 1)),
            self._sizes,
            priority=job.priority,
            untried_elsewhere=sum(
                one.untried
                for one in self._planned.values()
                if one.job.budget_id == job.budget_id and one.job.job_id != job.job_id
            ),
        )
        self._store.propose_rounds(job.job_id, proposals)

    def _count_sharing(self, found: Collection[SearchingJob]) -> Mapping[int, int]:
        """How many open jobs share each budget; those that wait to be split want their share."""
        sharing = dict(Counter(job.budget_id for job in found))
        for budget_id in {job.budget_id for job in found if job.budget.name}:
            wanted = JobFilter(states=OPEN, budget_id=budget_id)
            sharing[budget_id] = max(1, len(self._store.queue.jobs(wanted, limit=_MOST_JOBS)))
        return sharing

    def _note_left_out(self, job_id: int, reason: str) -> None:
        if self._left_out.get(job_id) != reason:
            _log.warning("left to other workers: %s", reason, extra={"job": job_id})
        self._left_out[job_id] = reason
