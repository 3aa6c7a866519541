"""A forecast in words."""

from __future__ import annotations

from collections.abc import Iterator

from tunebook.service.durations import show_duration
from tunebook.service.plans.plan_documents import PlanDocument, RemediesDocument


def plan_lines(plan: PlanDocument) -> Iterator[str]:
    """What the plan takes, whether it fits, what would, and what was assumed, line by line."""
    demand = plan.demand
    yield (
        f"{_count(plan.jobs, 'job')} ({_count(plan.models, 'model')} on "
        f"{_count(plan.targets, 'target')}): {_count(demand.trials, 'trial')} in "
        f"{show_duration(demand.seconds)}, {show_duration(demand.board_seconds)} of board time"
    )
    for one in demand.classes:
        yield (
            f"  {one.board_class}: {_count(one.boards, 'board')}, {_count(one.jobs, 'job')}, "
            f"{_count(one.trials, 'trial')}, {show_duration(one.seconds)}"
        )
    if plan.fits:
        yield f"This fits: {_room(plan)}."
    else:
        yield f"This does not fit: {_room(plan)}. What would, each alone:"
        if plan.remedies is not None:
            yield from (f"  - {line}" for line in _remedies(plan, plan.remedies))
    if plan.assumptions:
        yield "Assumed:"
        yield from (f"  - {line}" for line in plan.assumptions)


def _room(plan: PlanDocument) -> str:
    """What there is for it."""
    room = plan.room
    there = []
    if room.seconds is not None:
        until = "" if plan.deadline is None else f" (until {plan.deadline.isoformat()} at most)"
        there.append(f"{show_duration(room.seconds)}{until}")
    if room.trials is not None:
        there.append(_count(room.trials, "trial"))
    if room.board_seconds is not None:
        there.append(f"{show_duration(room.board_seconds)} of board time")
    return "there is " + (" and ".join(there) or "no limit")


def _remedies(plan: PlanDocument, remedies: RemediesDocument) -> Iterator[str]:
    if remedies.trials_per_job is not None and remedies.trials_share is not None:
        yield (
            f"fewer trials: {100 * remedies.trials_share:.0f} % of them, at most "
            f"{_number(remedies.trials_per_job)} a job"
        )
    if remedies.targets is not None:
        yield f"fewer targets: {remedies.targets} of the {plan.targets}"
    if remedies.models is not None:
        yield f"fewer models: {remedies.models} of the {plan.models}"
    for board_class, boards in (remedies.boards or {}).items():
        yield f"more boards: {boards} of class {board_class}"
    more = []
    if remedies.seconds is not None:
        more.append(show_duration(remedies.seconds))
    if remedies.trials is not None:
        more.append(_count(remedies.trials, "trial"))
    if remedies.board_seconds is not None:
        more.append(f"{show_duration(remedies.board_seconds)} of board time")
    yield f"a larger budget: {' and '.join(more)}"


def _count(number: int, what: str) -> str:
    return f"{_number(number)} {what if number == 1 else what + 's'}"


def _number(number: int) -> str:
    return f"{number:,}"
