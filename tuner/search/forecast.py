"""What a plan of tuning takes, whether it fits its budget, and what would.

Everything here is arithmetic on what others measured: rates, and where the tasks stand.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tunebook.cache.work import TaskState

_TOLERANCE = 1e-9


@dataclass(frozen=True)
class PlannedJob:
    """A model with its shapes that is to be tuned for a target by boards of a class.

    `trials` are those that it still wants, `tasks` how many it has: its first trials, below which
    nothing is served. `seconds_per_trial` is what one board and the search for it take together,
    `board_seconds_per_trial` the board's part. `states` are empty for a model that was never split.
    """

    model: str
    shapes: str
    target: str
    board_class: str
    trials: int
    tasks: int
    seconds_per_trial: float
    board_seconds_per_trial: float
    priority: float = 1.0
    states: tuple[TaskState, ...] = ()


@dataclass(frozen=True)
class Room:
    """What there is for a plan; None is no limit. `seconds` counts the time until a deadline too;
    `boards` how many serve each class, one where it is not named."""

    trials: int | None = None
    seconds: float | None = None
    board_seconds: float | None = None
    boards: Mapping[str, int] = field(default_factory=dict)

    def boards_of(self, board_class: str) -> int:
        return max(1, self.boards.get(board_class, 1))


@dataclass(frozen=True)
class ClassDemand:
    """What a plan asks of one class of boards; `seconds` with all of them at work."""

    board_class: str
    boards: int
    jobs: int
    trials: int
    seconds: float


@dataclass(frozen=True)
class Demand:
    """What a plan takes: the classes of boards work side by side, so its `seconds` are those of the
    class that takes longest."""

    trials: int
    seconds: float
    board_seconds: float
    classes: tuple[ClassDemand, ...]


@dataclass(frozen=True)
class Remedies:
    """What would fit, each of them alone; None where it would not help, or not alone.

    `trials_per_job` is the most that any job would get where all get the same share less
    (`trials_share`); `models` and `targets` count those that are kept, those of the highest
    priority first and then in the order of the plan; `boards` how many each class needs.
    """

    trials_share: float | None
    trials_per_job: int | None
    models: int | None
    targets: int | None
    boards: Mapping[str, int] | None
    trials: int | None
    seconds: float | None
    board_seconds: float | None


@dataclass(frozen=True)
class Forecast:
    """A plan's demand; `short_of` says what there is too little of (`trials`, `time`,
    `board-time`), and `remedies` what would fit, where it does not."""

    demand: Demand
    short_of: tuple[str, ...]
    remedies: Remedies | None

    @property
    def fits(self) -> bool:
        return not self.short_of


def forecast(jobs: Sequence[PlannedJob], room: Room) -> Forecast:
    """Whether a plan fits the room that there is for it, and what would where it does not."""
    demand = demand_of(jobs, room)
    short_of = _short_of(demand, room)
    return Forecast(demand, short_of, _remedies(jobs, room, demand) if short_of else None)


def demand_of(jobs: Sequence[PlannedJob], room: Room) -> Demand:
    """What all of a plan takes."""
    by_class: dict[str, list[PlannedJob]] = defaultdict(list)
    for job in jobs:
        by_class[job.board_class].append(job)
    classes = tuple(
        ClassDemand(
            board_class,
            room.boards_of(board_class),
            len(some),
            sum(job.trials for job in some),
            sum(job.trials * job.seconds_per_trial for job in some) / room.boards_of(board_class),
        )
        for board_class, some in by_class.items()
    )
    return Demand(
        trials=sum(job.trials for job in jobs),
        seconds=max((one.seconds for one in classes), default=0.0),
        board_seconds=sum(job.trials * job.board_seconds_per_trial for job in jobs),
        classes=classes,
    )


def _short_of(demand: Demand, room: Room) -> tuple[str, ...]:
    pairs = {
        "trials": (demand.trials, room.trials),
        "time": (demand.seconds, room.seconds),
        "board-time": (demand.board_seconds, room.board_seconds),
    }
    return tuple(name for name, (needed, limit) in pairs.items() if _exceeds(needed, limit))


def _remedies(jobs: Sequence[PlannedJob], room: Room, demand: Demand) -> Remedies:
    def fits(some: Sequence[PlannedJob]) -> bool:
        return not _short_of(demand_of(some, room), room)

    share = _fitting_share(demand, room)
    fewer = [_less(job, share) for job in jobs]
    shared = fits(fewer) and all(job.trials >= job.tasks for job in fewer)
    return Remedies(
        trials_share=share if shared else None,
        trials_per_job=max(job.trials for job in fewer) if shared else None,
        models=_most_kept(jobs, lambda job: f"{job.model} {job.shapes}", fits),
        targets=_most_kept(jobs, lambda job: f"{job.target} {job.board_class}", fits),
        boards=_fitting_boards(demand, room),
        trials=demand.trials if _exceeds(demand.trials, room.trials) else None,
        seconds=demand.seconds if _exceeds(demand.seconds, room.seconds) else None,
        board_seconds=(
            demand.board_seconds if _exceeds(demand.board_seconds, room.board_seconds) else None
        ),
    )


def _exceeds(needed: float, limit: float | None) -> bool:
    # What is cut down to a limit fits it, whatever its sum of fractions comes to.
    return limit is not None and needed > limit * (1 + _TOLERANCE)


def _fitting_share(demand: Demand, room: Room) -> float:
    pairs = (
        (demand.trials, room.trials),
        (demand.seconds, room.seconds),
        (demand.board_seconds, room.board_seconds),
    )
    return min(
        limit / needed for needed, limit in pairs if limit is not None and _exceeds(needed, limit)
    )


def _less(job: PlannedJob, share: float) -> PlannedJob:
    return replace(job, trials=math.floor(job.trials * share * (1 + _TOLERANCE)))


def _most_kept(
    jobs: Sequence[PlannedJob],
    part: Callable[[PlannedJob], str],
    fits: Callable[[Sequence[PlannedJob]], bool],
) -> int | None:
    """How many of the models, or of the targets, fit together; None for none or a single one."""
    importance: dict[str, float] = {}
    for job in jobs:
        importance[part(job)] = max(job.priority, importance.get(part(job), 0.0))
    # Stable: what is equally urgent stays in order.
    ranked = sorted(importance, key=lambda name: -importance[name])
    for count in range(len(ranked) - 1, 0, -1):
        kept = set(ranked[:count])
        if fits([job for job in jobs if part(job) in kept]):
            return count
    return None


def _fitting_boards(demand: Demand, room: Room) -> Mapping[str, int] | None:
    """The boards that each class needs where time alone is short."""
    if room.seconds is None or room.seconds <= 0 or _short_of(demand, room) != ("time",):
        return None
    return {
        one.board_class: math.ceil(one.seconds * one.boards / room.seconds / (1 + _TOLERANCE))
        for one in demand.classes
        if one.seconds > room.seconds
    }
