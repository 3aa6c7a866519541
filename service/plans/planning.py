"""From what is to be tuned and what the store knows to a forecast."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from tunebook.cache.boards.known_boards import Standing, known_boards
from tunebook.cache.errors import BudgetError
from tunebook.cache.queue.planning import KnownTasks, MeasuredRate, TasksFrom
from tunebook.cache.store import Store
from tunebook.cache.targets import MissingCoresError
from tunebook.service.known_classes import KnownClass, known_class
from tunebook.service.plans.plan_documents import (
    ClassDocument,
    DemandDocument,
    ExpectedGainDocument,
    PlanDocument,
    PlanJobSubmission,
    PlanSubmission,
    RemediesDocument,
    RoomDocument,
)
from tunebook.tuner.search.allocation import DEFAULT_SECONDS_PER_TRIAL, RoundSizes
from tunebook.tuner.search.expected_gains import ExpectedGain, expect_after
from tunebook.tuner.search.forecast import Forecast, PlannedJob, Room, forecast

HOUR = 3600.0
# What a small vision model splits into, where no model was ever split.
_DEFAULT_TASKS = 20
_OWN_MACHINE = "local"


@dataclass(frozen=True)
class _Facts:
    """What the store knows beside the models: rates, how many boards of a class workers have that
    may measure, and what completes the targets of classes."""

    rates: tuple[MeasuredRate, ...]
    boards: Counter[str]
    classes: dict[str, KnownClass]
    tasks_per_model: float | None

    @classmethod
    def read(cls, store: Store | None, submission: PlanSubmission) -> _Facts:
        names = {job.board_class for job in submission.jobs}
        if store is None:
            return cls((), Counter(), {name: KnownClass(name) for name in names}, None)
        boards = known_boards(store.boards.boards(), store.fleet.workers())
        serving = [one for one in boards if one.holders and one.standing != Standing.QUARANTINED]
        return cls(
            store.planning.measured_rates(),
            Counter(board.board_class for board in serving),
            {name: known_class(store, name) for name in names},
            store.planning.tasks_per_model(),
        )

    def rate(self, board_class: str, target: str) -> MeasuredRate | None:
        """What trials take on these boards for this target, or else for any."""
        of_class = [one for one in self.rates if one.board_class == board_class]
        same = [one for one in of_class if one.target == target] or of_class
        trials = sum(one.trials for one in same)
        if not any(one.seconds > 0 for one in same):
            return None
        return replace(
            same[0],
            trials=trials,
            seconds=sum(one.seconds * one.trials for one in same) / trials,
            board_seconds=sum(one.board_seconds * one.trials for one in same) / trials,
        )


class _Assumptions:
    """What had to be assumed, each with the number of jobs that it is of."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, text: str) -> None:
        self._counts[text] += 1

    @property
    def lines(self) -> list[str]:
        return [
            f"{count} {'job' if count == 1 else 'jobs'}: {text}"
            for text, count in self._counts.items()
        ]


def make_plan(store: Store | None, submission: PlanSubmission, now: datetime) -> PlanDocument:
    """Forecasts a plan from what the store knows, if there is one. `now` is aware.

    Raises BudgetError for a deadline that is over, and TargetError for a known model's target that
    cannot be read.
    """
    facts = _Facts.read(store, submission)
    assumed = _Assumptions()
    jobs = _with_trials(
        [_planned_job(store, facts, submission, job, assumed) for job in submission.jobs],
        submission,
    )
    room = _room(facts, submission, now, assumed)
    found = forecast(jobs, room)
    hour = expect_after(jobs, room, HOUR, RoundSizes())
    return _document(submission, jobs, room, found, hour, assumed.lines)


def _planned_job(
    store: Store | None,
    facts: _Facts,
    submission: PlanSubmission,
    job: PlanJobSubmission,
    assumed: _Assumptions,
) -> PlannedJob:
    """The job without its trials."""
    target = _canonical(job, facts, assumed)
    known = None
    if store is not None and job.model is not None:
        known = store.planning.known_tasks(job.model, job.shapes_text, target, job.board_class)
    seconds, board_seconds = _rate(facts, submission, job.board_class, target, assumed)
    return PlannedJob(
        model=job.label,
        shapes=job.shapes_text,
        target=target,
        board_class=job.board_class,
        trials=0,
        tasks=_task_count(facts, submission, known, assumed),
        seconds_per_trial=seconds,
        board_seconds_per_trial=board_seconds,
        priority=job.priority,
        states=known.states if known else (),
    )


def _canonical(job: PlanJobSubmission, facts: _Facts, assumed: _Assumptions) -> str:
    if job.model is None and job.target is not None:
        # A name that stands for any.
        return job.target
    try:
        return facts.classes[job.board_class].complete(job.target)
    except MissingCoresError:
        assumed.add("the target has no -num-cores, so that what was tuned for it is not found")
        return job.target or job.board_class


def _rate(
    facts: _Facts,
    submission: PlanSubmission,
    board_class: str,
    target: str,
    assumed: _Assumptions,
) -> tuple[float, float]:
    """Seconds of a trial, and the board's part of it."""
    measured = facts.rate(board_class, target)
    given = submission.seconds_per_trial
    if given is not None:
        # Of a given rate the board may be all.
        return given, given if measured is None else min(given, measured.board_seconds)
    if measured is None:
        assumed.add(
            f"no trial was measured on boards of class {board_class} yet: "
            f"{DEFAULT_SECONDS_PER_TRIAL:g} s each are assumed (--seconds-per-trial says better)"
        )
        return DEFAULT_SECONDS_PER_TRIAL, DEFAULT_SECONDS_PER_TRIAL
    if measured.target != target:
        assumed.add(
            f"trials for this target are expected to take what they take for others on boards of "
            f"class {board_class}: {measured.seconds:.2f} s"
        )
    return measured.seconds, measured.board_seconds


def _task_count(
    facts: _Facts,
    submission: PlanSubmission,
    known: KnownTasks | None,
    assumed: _Assumptions,
) -> int:
    if known is not None:
        if known.known_from is TasksFrom.OTHER_TARGET:
            assumed.add(
                "the model was split for another target only, and its tasks are counted there"
            )
        return known.count
    if submission.trials_per_job is not None:
        # Nobody asks how many there are.
        return 1
    if facts.tasks_per_model is None:
        assumed.add(
            f"the model was never split, nor was any other: {_DEFAULT_TASKS} tasks are assumed"
        )
        return _DEFAULT_TASKS
    mean = max(1, round(facts.tasks_per_model))
    assumed.add(f"the model was never split: {mean} tasks are assumed, the mean of those that were")
    return mean


def _with_trials(jobs: Sequence[PlannedJob], submission: PlanSubmission) -> list[PlannedJob]:
    """The jobs with the trials that each still wants."""
    if submission.trials_per_job is not None:
        return [_less_spent(job, submission.trials_per_job) for job in jobs]
    if submission.budget.trials is not None:
        share = submission.budget.trials // len(jobs)
        # One for each task has to be, whatever the share.
        return [replace(job, trials=max(share, job.tasks)) for job in jobs]
    return [_less_spent(job, submission.trials_per_task * job.tasks) for job in jobs]


def _less_spent(job: PlannedJob, wanted: int) -> PlannedJob:
    # Those of boards that had drifted do not count: nobody knows yet how fast what they tried is.
    spent = sum(task.trials - task.suspects for task in job.states)
    exhausted = bool(job.states) and all(task.exhausted for task in job.states)
    return replace(job, trials=0 if exhausted else max(0, wanted - spent))


def _room(facts: _Facts, submission: PlanSubmission, now: datetime, assumed: _Assumptions) -> Room:
    budget = submission.budget
    seconds = budget.seconds
    if budget.deadline is not None:
        until = (budget.deadline - now).total_seconds()
        if until <= 0:
            raise BudgetError(
                f"the deadline {budget.deadline.isoformat()} is over; give one that is to come"
            )
        seconds = until if seconds is None else min(seconds, until)
    boards = {}
    for job in submission.jobs:
        named = submission.boards.get(job.board_class) or facts.boards.get(job.board_class)
        boards[job.board_class] = named or 1
        if not named and job.board_class != _OWN_MACHINE:
            assumed.add(f"no worker serves boards of class {job.board_class} now: one is assumed")
    return Room(budget.trials, seconds, budget.board_seconds, boards)


def _document(
    submission: PlanSubmission,
    jobs: Sequence[PlannedJob],
    room: Room,
    found: Forecast,
    hour: Sequence[ExpectedGain],
    assumptions: list[str],
) -> PlanDocument:
    demand, remedies = found.demand, found.remedies
    return PlanDocument.model_validate(
        {
            "fits": found.fits,
            "short_of": list(found.short_of),
            "jobs": len(jobs),
            "models": len({(job.model, job.shapes) for job in jobs}),
            "targets": len({(job.target, job.board_class) for job in jobs}),
            "demand": DemandDocument(
                trials=demand.trials,
                seconds=demand.seconds,
                board_seconds=demand.board_seconds,
                classes=[ClassDocument(**asdict(one)) for one in demand.classes],
            ),
            "room": RoomDocument(
                trials=room.trials, seconds=room.seconds, board_seconds=room.board_seconds
            ),
            "deadline": submission.budget.deadline,
            "remedies": None if remedies is None else RemediesDocument(**asdict(remedies)),
            "assumptions": assumptions,
            "another_hour": [ExpectedGainDocument(**asdict(one), share=one.share) for one in hour],
        }
    )
