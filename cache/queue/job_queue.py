"""Jobs that are submitted to a coordinator, from the wish to the end, and their budgets."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from tunebook.cache.errors import BudgetError
from tunebook.cache.queue import (
    job_events,
    job_listing,
    job_stages,
    jobs,
    retention,
    round_claims,
    rounds,
    shared_budgets,
    submitted_jobs,
)
from tunebook.cache.queue.fleet import Fleet
from tunebook.cache.queue.idempotency import made_before, note_made, take_turn
from tunebook.cache.queue.job_events import JobEvent
from tunebook.cache.queue.leases import LeaseObserver
from tunebook.cache.queue.submissions import (
    BudgetLimits,
    BudgetUse,
    ClaimedStage,
    Idempotency,
    Job,
    JobFilter,
    JobRequest,
    JobState,
    SearchingJob,
    Submission,
)
from tunebook.cache.storage.database import Database

_ALL_JOBS = JobFilter()


class JobQueue:
    """Jobs that are submitted to a coordinator, from the wish to the end, and their budgets.

    The contract, beside that of the Store:

    - A job is split by one worker, then recovered by one that has its boards, then searched for by
      all that have. The first two are leases like those of rounds: `beat_stage`, `finish_split`,
      `finish_recovery` and `fail_stage` of anybody else raise LeaseLostError, also once the job
      was cancelled.
    - A budget belongs to one job, to those that joined it since they are for the same, or, where it
      has a name, to all that were submitted with it. Trials are exact, however many jobs and
      workers share it. Seconds, board seconds and the deadline are looked at when a round is
      claimed: they are overrun by less than a round.
    - Submitting happens one at a time: of two that retry with one key, or want the same, the later
      sees what the earlier made.
    - What happens to a job is told by an event in the same transaction; its numbers have no gaps.
    - Jobs of local commands are not seen here.
    """

    def __init__(self, database: Database, observer: LeaseObserver, fleet: Fleet) -> None:
        self._database = database
        self._rounds_observer = observer
        self._stages_observer = observer.another()
        self._fleet = fleet

    # --- budgets -----------------------------------------------------------------------------
    def create_budget(
        self, name: str, limits: BudgetLimits, idempotency: Idempotency | None = None
    ) -> tuple[int, bool]:
        """Makes a budget that jobs can share; gives its id, and whether it was made now and not by
        an earlier request with the same key. Names need not be unique. Raises BudgetError for one
        without a name or limits, or with a deadline that is past, and IdempotencyError."""
        with self._database.writing() as session:
            take_turn(session)
            earlier = made_before(session, "budget", idempotency)
            if earlier is not None:
                return earlier, False
            if not name.strip():
                raise BudgetError("a shared budget needs a name that is not empty; give one")
            shared_budgets.check_limits(limits)
            budget_id = shared_budgets.create_budget(session, name, limits)
            note_made(session, "budget", budget_id, idempotency)
            return budget_id, True

    def budget(self, budget_id: int) -> BudgetUse:
        """A budget and what was used of it. Raises NotFoundError."""
        with self._database.reading() as session:
            return shared_budgets.read_budget_use(session, budget_id)

    def budgets(
        self, name: str | None = None, after: int | None = None, limit: int = 50
    ) -> tuple[BudgetUse, ...]:
        """The shared budgets (of a name, where given), newest first, from the first whose id is
        below `after`."""
        with self._database.reading() as session:
            return shared_budgets.list_budgets(session, name, after, limit)

    def use_seconds(self, budget_id: int, observed: float, delta: float) -> float:
        """Adds the seconds that a worker worked for a budget since it saw `observed` used; gives
        what is used now. Adds nothing where somebody else was quicker: of workers that work for it
        at the same time one counts. Raises NotFoundError."""
        with self._database.writing() as session:
            return shared_budgets.use_seconds(session, budget_id, observed, delta)

    # --- submitting --------------------------------------------------------------------------
    def submit(
        self,
        request: JobRequest,
        budget: BudgetLimits | int,
        idempotency: Idempotency | None = None,
    ) -> Submission:
        """Puts a job into the queue, with limits of its own or the id of a shared budget.

        One for the same as an open job whose own budget limits the same things joins that budget:
        each limit becomes the larger of the two, and it goes on where the other one is. Ending or
        cancelling one leaves the other. With a key that was used before nothing is made and the
        earlier job given. Raises BudgetError for limits that are none or a deadline that is past,
        NotFoundError for a budget that is not there or not shared, UsageError for a priority that
        is not above 0, and IdempotencyError for a key that was used for something else.
        """
        with self._database.writing() as session:
            return submitted_jobs.submit(session, request, budget, idempotency)

    def made_job(self, idempotency: Idempotency) -> int | None:
        """The job that an earlier request with this key made; None where it made none. Raises
        IdempotencyError for a key that was used for something else."""
        with self._database.reading() as session:
            return made_before(session, "job", idempotency)

    def job(self, job_id: int) -> Job:
        """A job as it stands. Raises NotFoundError. Its tasks are `Store.task_states`."""
        with self._database.reading() as session:
            return job_listing.read_job(session, job_id, self._fleet.served_classes(session))

    def jobs(
        self, wanted: JobFilter = _ALL_JOBS, after: int | None = None, limit: int = 50
    ) -> tuple[Job, ...]:
        """Jobs, newest first, from the first whose id is below `after`, without their logs."""
        with self._database.reading() as session:
            served = self._fleet.served_classes(session)
            return job_listing.list_jobs(session, wanted, after, limit, served)

    def trials(self, job_id: int) -> int:
        """How many trials the rounds of a job were charged; those that other jobs measured for the
        same workloads are theirs."""
        with self._database.reading() as session:
            return job_listing.trials_of(session, job_id)

    def cancel(self, job_id: int) -> Job:
        """Ends a job and closes its rounds; its workers learn so by their leases, and what was
        measured stays. One that ended already stays as it is. Raises NotFoundError."""
        with self._database.writing() as session:
            submitted_jobs.cancel(session, job_id)
            # Raises for a job of a local command too, and what was done to it is undone.
            return job_listing.read_job(session, job_id, self._fleet.served_classes(session))

    # --- stages ------------------------------------------------------------------------------
    def claim_stage(
        self, worker: str, stages: Collection[str], board_classes: Collection[str]
    ) -> ClaimedStage | None:
        """Claims the stage (`split`, `recover`) of the job with the highest priority, of these the
        oldest, whose budget is not over, expiring dead leases first. Anybody splits; a job is
        recovered by who has boards of its class. One at which three workers died is given up: a job
        that was to be split fails, one that was to be recovered is searched for. None when there is
        nothing to claim: ask again after a second."""
        while True:
            with self._database.writing() as session:
                claim = job_stages.claim_stage(
                    session, self._stages_observer, worker, stages, board_classes
                )
            if not claim.again:
                return claim.stage

    def beat_stage(self, job_id: int, epoch: int) -> None:
        """Says that the worker lives. Raises LeaseLostError when another worker claimed the stage
        meanwhile, or the job was cancelled or has ended."""
        with self._database.writing() as session:
            job_stages.beat_stage(session, job_id, epoch)

    def release_stage(self, job_id: int, epoch: int) -> None:
        """Lets go of a stage, for another worker to claim at once and begin anew. Raises
        LeaseLostError."""
        with self._database.writing() as session:
            job_stages.release_stage(session, job_id, epoch)

    def finish_split(self, job_id: int, epoch: int, model_id: int) -> None:
        """The model is stored: its workloads become the job's tasks, and it wants to be recovered.
        Tasks take over `untuned_seconds` from earlier jobs on that board class. Raises
        LeaseLostError, and DatabaseError where the model is not stored."""
        with self._database.writing() as session:
            job_stages.finish_split(session, job_id, epoch, model_id)

    def finish_recovery(self, job_id: int, epoch: int) -> None:
        """What could be recovered was: the job wants to be searched for. Closes its rounds that
        nobody ever claimed. Raises LeaseLostError."""
        with self._database.writing() as session:
            job_stages.finish_recovery(session, job_id, epoch)

    def fail_stage(self, job_id: int, epoch: int, reason: str, log: str = "") -> None:
        """Ends the job as failed, with the reason in one line and the end of its log. Raises
        LeaseLostError."""
        with self._database.writing() as session:
            job_stages.fail_stage(session, job_id, epoch, reason, log)

    # --- searching ---------------------------------------------------------------------------
    def searching(self, board_classes: Collection[str]) -> tuple[SearchingJob, ...]:
        """The open jobs of these board classes that want search rounds and whose budget is not
        over, highest priority first. Their rounds are proposed for each, and claimed over all with
        `Store.claim_round(worker, board_classes=..., searched=True)`."""
        with self._database.reading() as session:
            return job_listing.searching_jobs(session, board_classes)

    def fail(self, job_id: int, reason: str, log: str = "") -> None:
        """Ends a job as failed that nobody can search for, whoever holds its rounds; one that ended
        already stays as it is."""
        with self._database.writing() as session:
            jobs.finish_job(session, job_id, JobState.FAILED.value, reason, job_stages.end_of(log))

    def end_spent(self) -> tuple[int, ...]:
        """Ends the jobs whose budget is over or whose tasks are all exhausted and that have nothing
        in flight: `done`, with `trials`, `time`, `board-time`, `deadline` or `exhausted` as the
        reason; gives their ids. Expires dead leases first."""
        self._expire_dead()
        with self._database.reading() as session:
            spent = submitted_jobs.spent_jobs(session)
        ended = []
        for job_id in spent:
            with self._database.writing() as session:
                if submitted_jobs.end_if_spent(session, job_id):
                    ended.append(job_id)
        return tuple(ended)

    def _expire_dead(self) -> None:
        """Asked each second by every process there is: it writes only where somebody died."""
        with self._database.reading() as session:
            dead_rounds = rounds.dead_leases(session, self._rounds_observer)
            dead_stages = job_stages.dead_stages(session, self._stages_observer)
        # Jobs are locked before rounds: each kind of lease has a transaction of its own.
        if dead_rounds:
            with self._database.writing() as session:
                round_claims.expire_dead_leases(session, self._rounds_observer)
        if dead_stages:
            with self._database.writing() as session:
                job_stages.expire_dead_stages(session, self._stages_observer)

    def note_waiting(self) -> None:
        """Tells by an event of each job that nobody serves its board class any more, or somebody
        does again. To be called now and then by whoever coordinates."""
        with self._database.reading() as session:
            served = self._fleet.served_classes(session)
            changed = submitted_jobs.changed_waiting(session, served)
        for job_id in changed:
            with self._database.writing() as session:
                submitted_jobs.note_waiting(session, job_id, served)

    def tidy(self, now: datetime) -> None:
        """Forgets clients' keys of a week ago, the events of jobs that ended a month ago, and dead
        workers. To be called now and then by whoever coordinates."""
        with self._database.writing() as session:
            self._fleet.clear_dead(session)
            retention.forget_old_keys(session, now)
            retention.forget_old_events(session, now)

    # --- events ------------------------------------------------------------------------------
    def events(self, job_id: int, after: int = 0, limit: int = 500) -> tuple[JobEvent, ...]:
        """A job's events whose number is above `after`, in order; none for a job that is not
        there, or whose events were forgotten."""
        with self._database.reading() as session:
            return job_events.read_events(session, job_id, after, limit)

    def last_events(self, job_ids: Collection[int]) -> dict[int, int]:
        """The number of the newest event of each of these jobs that has any, in one question for
        all who follow jobs."""
        with self._database.reading() as session:
            return job_events.last_events(session, job_ids)
