"""A night: models are sent, jobs submitted on one budget, waited for, and summed up.

Everything that it makes at the coordinator has the night's name or a key that follows from it, so
that the same command goes on with the same night.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from tunebook.cache.errors import ServerError, TunebookError, UnreachableError
from tunebook.service.durations import show_duration
from tunebook.service.nights.coordinator import Coordinator
from tunebook.service.nights.documents import BudgetDocument, JobDocument
from tunebook.service.nights.night_file import NightFile
from tunebook.service.nights.night_jobs import NightJob, identity_of, night_jobs
from tunebook.service.nights.night_progress import NightProgress, NightView
from tunebook.service.nights.same_night import require_same_budget, require_same_priority
from tunebook.service.nights.standings import Standings, StandingsFile
from tunebook.service.nights.summary import (
    HourSummary,
    JobResult,
    NightSummary,
    Outcome,
    budget_summary,
    job_summary,
    regressions,
    target_summaries,
)

_POLL_SECONDS = 2.0
# From noon to noon is one night.
_HALF_A_DAY = timedelta(hours=12)


@dataclass(frozen=True)
class Clock:
    """The clocks that a night goes by: `now` is aware, `monotonic` in seconds."""

    now: Callable[[], datetime]
    monotonic: Callable[[], float]
    sleep: Callable[[float], None]


def night_name(night: NightFile, now: datetime) -> str:
    """The name of the night that is on: after its deadline where that is given, and else after the
    day on whose noon it began."""
    deadline = night.budget.deadline_after(now)
    if deadline is not None:
        return f"{night.name} until {deadline:%Y-%m-%dT%H:%MZ}"
    return f"{night.name} of {(now - _HALF_A_DAY):%Y-%m-%d}"


class Night:
    """One night at one coordinator."""

    def __init__(
        self,
        coordinator: Coordinator,
        night: NightFile,
        name: str,
        standings: StandingsFile,
        clock: Clock,
        view: NightView,
    ) -> None:
        self._coordinator = coordinator
        self._night = night
        self._name = name
        self._standings = standings
        self._clock = clock
        self._view = view

    def run(self, server: str) -> NightSummary:
        """Submits what is to be tuned, waits until all of it has ended, and sums up.

        Raises UnreachableError when the coordinator stays away, BudgetError and UsageError for a
        night that cannot be as the file says. What one job cannot be is that job's failure.
        """
        started_at = self._clock.now()
        found = self._coordinator.find_budget(self._name)
        if found is not None:
            require_same_budget(self._name, found, self._night.budget)
        jobs = night_jobs(self._night, self._coordinator.known_class)
        before = self._before(jobs, late=found is not None)
        budget = found or self._create_budget()
        settled = {
            job.identity: self._settle(job, Outcome.FAILED, job.problem, before)
            for job in jobs
            if job.problem
        }
        submitted = self._submit(jobs, budget, before, settled)
        gave_up = self._wait(jobs, submitted, budget)
        results = [
            settled.get(job.identity) or self._result(job, submitted[job.identity], before, gave_up)
            for job in jobs
        ]
        return NightSummary(
            night=self._name,
            server=server,
            started_at=_iso_utc(started_at),
            finished_at=_iso_utc(self._clock.now()),
            resumed=found is not None,
            before_is_late=before.late,
            min_hit_rate=self._night.settings.min_hit_rate,
            budget=budget_summary(self._coordinator.budget(budget.id)),
            targets=target_summaries(self._night, results),
            jobs=[job_summary(one) for one in results],
            regressions=regressions(results),
            another_hour=self._another_hour(results),
        )

    # --- the beginning -----------------------------------------------------------------------
    def _create_budget(self) -> BudgetDocument:
        limits = self._night.budget
        deadline = limits.deadline_after(self._clock.now())
        return self._coordinator.create_budget(self._name, limits, deadline, self._key("budget"))

    def _before(self, jobs: Sequence[NightJob], *, late: bool) -> Standings:
        """What the cache had when the night began."""
        kept = self._standings.read()
        found = {} if kept is None else dict(kept.jobs)
        unknown = [job for job in jobs if job.digest and job.identity not in found]
        for job in unknown:
            self._view.tell(f"looking up {job.label}")
            found[job.identity] = self._coordinator.standing(job)
        is_late = (late if kept is None else kept.late) and bool(found)
        standings = Standings(night=self._name, late=is_late, jobs=found)
        if unknown:
            self._standings.write(standings)
        return standings

    def _submit(
        self,
        jobs: Sequence[NightJob],
        budget: BudgetDocument,
        before: Standings,
        settled: dict[str, JobResult],
    ) -> dict[str, int]:
        """The numbers of the jobs at the coordinator, by identity; those that are not submitted
        become `settled`."""
        there = {identity_of(one): one for one in self._coordinator.jobs_of(budget.id)}
        submitted: dict[str, int] = {}
        sent: set[str] = set()
        for job in jobs:
            if job.identity in settled:
                continue
            if job.identity in there:
                require_same_priority(self._name, job, there[job.identity])
                submitted[job.identity] = there[job.identity].id
                continue
            try:
                reason = self._why_skip(job, before)
                if reason:
                    settled[job.identity] = self._settle(job, Outcome.SKIPPED, reason, before)
                    continue
                self._view.tell(f"submitting {job.label}")
                if job.digest not in sent:
                    self._coordinator.upload(job)
                    sent.add(job.digest)
                document = self._coordinator.submit(job, budget.id, self._key(job.identity))
            except ServerError:
                raise
            except TunebookError as error:
                settled[job.identity] = self._settle(job, Outcome.FAILED, str(error), before)
            else:
                submitted[job.identity] = document.id
        return submitted

    # --- the night ---------------------------------------------------------------------------
    def _wait(
        self, jobs: Sequence[NightJob], submitted: Mapping[str, int], budget: BudgetDocument
    ) -> dict[int, str]:
        """Waits until all jobs have ended; gives those that it ended itself, with the reason."""
        labels = {submitted[job.identity]: job.label for job in jobs if job.identity in submitted}
        waiting_since: float | None = None
        while True:
            found = [one for one in self._coordinator.jobs_of(budget.id) if one.id in labels]
            self._view.show(
                NightProgress(
                    tuple((labels[one.id], one) for one in reversed(found)),
                    self._coordinator.budget(budget.id),
                )
            )
            still_open = [one for one in found if not one.has_ended]
            if not still_open:
                return {}
            now = self._clock.monotonic()
            if all(one.waits for one in still_open):
                waiting_since = now if waiting_since is None else waiting_since
                if now - waiting_since >= self._night.settings.wait_for_boards:
                    return self._give_up(still_open)
            else:
                waiting_since = None
            self._clock.sleep(_POLL_SECONDS)

    def _give_up(self, jobs: Sequence[JobDocument]) -> dict[int, str]:
        """Ends jobs whose boards nobody has."""
        waited = show_duration(self._night.settings.wait_for_boards)
        for one in jobs:
            self._coordinator.cancel(one.id)
        return {one.id: f"{one.reason}; waited {waited} for one" for one in jobs}

    # --- the end -----------------------------------------------------------------------------
    def _result(
        self, job: NightJob, job_id: int, before: Standings, gave_up: Mapping[int, str]
    ) -> JobResult:
        document = self._coordinator.job(job_id)
        outcome = Outcome.FAILED if job_id in gave_up else Outcome(document.state)
        reason = gave_up.get(job_id, document.reason)
        after = self._coordinator.standing(job, document.compiler)
        return JobResult(job, outcome, reason, document, before.jobs.get(job.identity), after)

    def _settle(self, job: NightJob, outcome: Outcome, reason: str, before: Standings) -> JobResult:
        """The result of a job that is not submitted: the cache has for it what it had."""
        standing = before.jobs.get(job.identity)
        return JobResult(job, outcome, reason, None, standing, standing)

    def _why_skip(self, job: NightJob, before: Standings) -> str:
        """Why a job needs no tuning; empty where it is to be submitted."""
        standing = before.jobs.get(job.identity)
        if standing is None or standing.misses:
            return ""
        enough = self._night.settings.well_enough
        if not self._coordinator.wants_trials(job, enough.trials):
            return (
                f"every schedule hits, and its tasks had {enough.trials} trials each, or the "
                f"search finds nothing new"
            )
        for _, gain in self._coordinator.expected_gains([job]):
            if gain.share < enough.gain:
                return (
                    f"every schedule hits, and another hour is expected to win "
                    f"{100 * gain.share:.1f} %"
                )
        return ""

    def _another_hour(self, results: Sequence[JobResult]) -> list[HourSummary] | None:
        """What another hour on all of these would be expected to bring; None where the coordinator
        cannot say, which is no reason to be silent about the night."""
        try:
            gains = self._coordinator.expected_gains([one.job for one in results if one.job.digest])
        except UnreachableError:
            raise
        except TunebookError:
            return None
        return [
            HourSummary(
                model=job.wanted.model.name,
                shapes=job.wanted.shapes_text,
                target=job.wanted.target.name,
                seconds=gain.latency,
                expected_seconds=gain.expected_latency,
            )
            for job, gain in gains
        ]

    def _key(self, what: str) -> str:
        """An idempotency key: the same for the same thing in the same night."""
        text = f"{self._name}\n{what}"
        return f"night-{hashlib.sha256(text.encode()).hexdigest()}"


def _iso_utc(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).isoformat(timespec="seconds")
