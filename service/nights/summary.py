"""What a night came to, as machines read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from pydantic import BaseModel

from tunebook.cache.errors import ExitCode
from tunebook.service.nights.documents import (
    BudgetDocument,
    JobDocument,
    Standing,
    served_latency,
    untuned_latency,
)
from tunebook.service.nights.night_file import NightFile, NightTarget
from tunebook.service.nights.night_jobs import NightJob

# Sums of the same times in another order differ by less.
_EQUAL = 1e-9


class Outcome(str, Enum):
    """How a job of a night ended; `skipped` and some that `failed` were never submitted."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class JobResult:
    """A job of a night when it is over. `before` and `after` are what the cache had for it, None
    where its model was not split then; `document` is the job at the coordinator, if it was
    submitted."""

    job: NightJob
    outcome: Outcome
    reason: str
    document: JobDocument | None
    before: Standing | None
    after: Standing | None


class HitsSummary(BaseModel):
    """How many of the schedules that were wanted hit."""

    hits: int
    wanted: int
    rate: float


class TargetSummary(BaseModel):
    """The hit rate of a target, over the models that had been split for it: a `new` one had not
    before the night, and None stands where none had."""

    name: str
    target: str
    board_class: str
    before: HitsSummary | None
    after: HitsSummary | None
    new_models: int


class JobSummary(BaseModel):
    """A model on a target. Latencies are the sum of its tasks in seconds, what does not hit runs
    untuned; None where a task was never timed, or nothing was measured this night. `trials` are
    those that this job was charged."""

    job: int | None
    model: str
    digest: str
    shapes: str
    target: str
    outcome: str
    reason: str
    log: str
    trials: int | None
    before: HitsSummary | None
    after: HitsSummary | None
    untuned_seconds: float | None
    before_seconds: float | None
    after_seconds: float | None
    failed_trials: dict[str, int]


class RegressionSummary(BaseModel):
    """What is worse than before the night: a model's latency in seconds, or a hit rate."""

    model: str
    shapes: str
    target: str
    measure: str
    before: float
    after: float


class BudgetSummary(BaseModel):
    """What of the night's budget was spent; None where it has no limit. `over` says which limit
    was reached."""

    trials: int
    trials_limit: int | None
    seconds: float
    seconds_limit: float | None
    board_seconds: float
    board_seconds_limit: float | None
    deadline: str | None
    over: str | None


class HourSummary(BaseModel):
    """What another hour of tuning is expected to bring to a model: its latency then, in seconds."""

    model: str
    shapes: str
    target: str
    seconds: float
    expected_seconds: float


class NightSummary(BaseModel):
    """A night. `resumed`: it was under way before this command; `before_is_late`: nobody knew any
    more what the cache had when it began; `another_hour` is None where nobody can say."""

    night: str
    server: str
    started_at: str
    finished_at: str
    resumed: bool
    before_is_late: bool
    min_hit_rate: float | None
    budget: BudgetSummary
    targets: list[TargetSummary]
    jobs: list[JobSummary]
    regressions: list[RegressionSummary]
    another_hour: list[HourSummary] | None

    @property
    def failed(self) -> list[JobSummary]:
        return [job for job in self.jobs if job.outcome == Outcome.FAILED.value]

    @property
    def below(self) -> list[TargetSummary]:
        """The targets whose hit rate is below what was asked for."""
        asked = self.min_hit_rate
        if asked is None:
            return []
        return [one for one in self.targets if one.after is None or one.after.rate < asked]


def exit_code(summary: NightSummary) -> ExitCode:
    """What a night's command says to whoever started it."""
    if summary.failed:
        return ExitCode.FAILURE
    return ExitCode.MISS if summary.below else ExitCode.OK


def target_summaries(night: NightFile, results: Sequence[JobResult]) -> list[TargetSummary]:
    """Each target of a night, in the file's order."""
    return [
        _target_summary(target, [one for one in results if one.job.wanted.target == target])
        for target in night.targets
    ]


def job_summary(result: JobResult) -> JobSummary:
    """A job as machines read it."""
    document = result.document
    tasks = () if document is None else document.tasks
    failures: dict[str, int] = {}
    for task in tasks:
        for error, count in task.failures.items():
            failures[error] = failures.get(error, 0) + count
    return JobSummary(
        job=None if document is None else document.id,
        model=result.job.wanted.model.name,
        digest=result.job.digest,
        shapes=result.job.wanted.shapes_text,
        target=result.job.wanted.target.name,
        outcome=result.outcome.value,
        reason=result.reason,
        log="" if document is None else document.log,
        trials=None if document is None else document.trials,
        before=_hits([result.before]),
        after=_hits([result.after]),
        untuned_seconds=untuned_latency(tasks),
        before_seconds=None if result.before is None else served_latency(tasks, result.before.hits),
        after_seconds=None if result.after is None else served_latency(tasks, result.after.hits),
        failed_trials=failures,
    )


def regressions(results: Sequence[JobResult]) -> list[RegressionSummary]:
    """What is worse after a night than before it, of the models that had been split before.

    A latency is compared over the schedules that hit before and after, whose times are known
    without any job; a hit rate over all.
    """
    found = []
    for one in results:
        if one.before is None or one.after is None:
            continue
        names = {
            "model": one.job.wanted.model.name,
            "shapes": one.job.wanted.shapes_text,
            "target": one.job.wanted.target.name,
        }
        before, after = _hits([one.before]), _hits([one.after])
        if before is not None and after is not None and after.rate < before.rate:
            found.append(
                RegressionSummary(**names, measure="hit-rate", before=before.rate, after=after.rate)
            )
        found += [
            RegressionSummary(**names, measure="latency", before=was, after=now)
            for was, now in [_latencies(one)]
            if now > was * (1 + _EQUAL)
        ]
    return found


def budget_summary(budget: BudgetDocument) -> BudgetSummary:
    """A budget as machines read it."""
    return BudgetSummary(
        trials=budget.trials.spent,
        trials_limit=budget.trials.limit,
        seconds=budget.seconds.used,
        seconds_limit=budget.seconds.limit,
        board_seconds=budget.board_seconds.used,
        board_seconds_limit=budget.board_seconds.limit,
        deadline=None if budget.deadline is None else budget.deadline.isoformat(),
        over=budget.over,
    )


def _latencies(result: JobResult) -> tuple[float, float]:
    """Seconds of the schedules that hit before and after, each times its weight where a job says
    how often its model calls it."""
    assert result.before is not None
    assert result.after is not None
    tasks = () if result.document is None else result.document.tasks
    weights = {task.key: task.weight for task in tasks}
    both = result.before.hits.keys() & result.after.hits.keys()
    was, now = (
        sum(weights.get(key, 1) * hits[key] for key in sorted(both))
        for hits in (result.before.hits, result.after.hits)
    )
    return was, now


def _target_summary(target: NightTarget, results: Sequence[JobResult]) -> TargetSummary:
    return TargetSummary(
        name=target.name,
        target=results[0].job.target if results else target.target or "",
        board_class=target.board_class,
        before=_hits([one.before for one in results]),
        after=_hits([one.after for one in results]),
        new_models=sum(one.before is None and one.after is not None for one in results),
    )


def _hits(standings: Sequence[Standing | None]) -> HitsSummary | None:
    """The hits of all of them together; None where none of their models was split."""
    known = [one for one in standings if one is not None]
    if not known:
        return None
    hits, wanted = sum(len(one.hits) for one in known), sum(one.wanted for one in known)
    return HitsSummary(hits=hits, wanted=wanted, rate=hits / wanted if wanted else 1.0)
