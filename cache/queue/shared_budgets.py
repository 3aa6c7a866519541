"""Budgets of submitted jobs: made, joined, read, and how long workers worked for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from math import isfinite
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from tunebook.cache.errors import BudgetError, NotFoundError
from tunebook.cache.queue.submissions import BudgetLimits, BudgetUse
from tunebook.cache.storage.moments import now
from tunebook.cache.storage.tables import BudgetRow
from tunebook.cache.work import UNLIMITED_TRIALS


def check_limits(limits: BudgetLimits) -> None:
    """Raises BudgetError where nothing is limited, or a limit leaves no room for anything."""
    if all(limit is None for limit in astuple(limits)):
        raise BudgetError(
            "a budget limits nothing; give trials, seconds, board_seconds or deadline"
        )
    if limits.trials is not None and not 0 < limits.trials < UNLIMITED_TRIALS:
        raise BudgetError(
            f"a budget of {limits.trials} trials is none; give 1 to {UNLIMITED_TRIALS - 1}"
        )
    for name in ("seconds", "board_seconds"):
        seconds = getattr(limits, name)
        if seconds is not None and not (isfinite(seconds) and seconds > 0):
            raise BudgetError(f"a budget of {seconds} {name} is none; give a positive number")
    if limits.deadline is not None and limits.deadline.tzinfo is None:
        raise BudgetError(f"the deadline {limits.deadline} has no time zone; give one, such as Z")
    if limits.deadline is not None and limits.deadline <= now():
        raise BudgetError(f"the deadline {limits.deadline.isoformat()} is past; give a later one")


def create_budget(session: Session, name: str, limits: BudgetLimits) -> int:
    """A new budget; its id. One without a name is for the jobs that join it only."""
    row = BudgetRow(name=name, **_columns(limits))
    session.add(row)
    session.flush()
    return row.id


def raise_limits(session: Session, budget_id: int, limits: BudgetLimits) -> bool:
    """Makes each limit the larger of what it was and what is given, which limits the same things;
    gives whether more trials are allowed than before."""
    row = session.scalars(
        select(BudgetRow)
        .where(BudgetRow.id == budget_id)
        .with_for_update(key_share=True)
        .execution_options(populate_existing=True)
    ).one()
    before = _limits(row)
    larger = BudgetLimits(*map(_larger, astuple(before), astuple(limits)))
    session.execute(update(BudgetRow).where(BudgetRow.id == budget_id).values(**_columns(larger)))
    return (larger.trials or 0) > (before.trials or 0)


def limits_the_same(row: BudgetRow, limits: BudgetLimits) -> bool:
    """Whether a budget limits what `limits` does. The larger of a limit and none is none: two
    limited budgets would become one without limits."""
    mine, theirs = astuple(_limits(row)), astuple(limits)
    return all((a is None) == (b is None) for a, b in zip(mine, theirs, strict=True))


def read_budget_use(session: Session, budget_id: int) -> BudgetUse:
    """See JobQueue.budget."""
    row = session.get(BudgetRow, budget_id)
    if row is None:
        raise NotFoundError(f"there is no budget {budget_id}; `GET /api/v1/budgets` lists them")
    return budget_use(row)


def list_budgets(
    session: Session, name: str | None, after: int | None, limit: int
) -> tuple[BudgetUse, ...]:
    """See JobQueue.budgets."""
    statement = select(BudgetRow).where(BudgetRow.name != "")
    if name is not None:
        statement = statement.where(BudgetRow.name == name)
    if after is not None:
        statement = statement.where(BudgetRow.id < after)
    rows: Sequence[BudgetRow] = session.scalars(
        statement.order_by(BudgetRow.id.desc()).limit(limit)
    ).all()
    return tuple(budget_use(row) for row in rows)


def budget_use(row: BudgetRow) -> BudgetUse:
    return BudgetUse(
        id=row.id,
        name=row.name,
        limits=_limits(row),
        trials_spent=row.spent,
        trials_granted=row.granted,
        used_seconds=row.used_seconds,
        board_seconds=row.board_seconds,
        created_at=row.created_at,
        over=_over(row),
    )


def use_seconds(session: Session, budget_id: int, observed: float, delta: float) -> float:
    """See JobQueue.use_seconds."""
    used = session.scalar(
        update(BudgetRow)
        .where(BudgetRow.id == budget_id, BudgetRow.used_seconds == observed)
        .values(used_seconds=observed + delta)
        .returning(BudgetRow.used_seconds)
    )
    if used is None:
        return read_budget_use(session, budget_id).used_seconds
    return float(used)


def _over(row: BudgetRow) -> str | None:
    limits = _limits(row)
    reached = {
        "trials": row.spent >= row.trial_limit,
        "time": limits.seconds is not None and row.used_seconds >= limits.seconds,
        "board-time": limits.board_seconds is not None
        and row.board_seconds >= limits.board_seconds,
        "deadline": limits.deadline is not None and limits.deadline <= now(),
    }
    return next((name for name, is_reached in reached.items() if is_reached), None)


def _limits(row: BudgetRow) -> BudgetLimits:
    return BudgetLimits(
        trials=None if row.trial_limit >= UNLIMITED_TRIALS else row.trial_limit,
        seconds=row.seconds_limit,
        board_seconds=row.board_seconds_limit,
        deadline=row.deadline,
    )


def _columns(limits: BudgetLimits) -> dict[str, Any]:
    return {
        "trial_limit": UNLIMITED_TRIALS if limits.trials is None else limits.trials,
        "seconds_limit": limits.seconds,
        "board_seconds_limit": limits.board_seconds,
        "deadline": limits.deadline,
    }


def _larger(one: Any, other: Any) -> Any:
    return None if one is None or other is None else max(one, other)
