"""Budgets: all arithmetic of trials. `spent <= granted <= trial_limit`, whatever happens when.

A trial is reserved for a round, then charged when its result is stored, or given back when the
round ends. One that reached its limit of seconds, board seconds or its deadline grants nothing
more. Whoever locks a budget locks no job, no round and no other budget after it. It is locked so
that jobs can still be made for it: those who make some at once would else wait for each other.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, ScalarSelect, and_, or_, select, update
from sqlalchemy.orm import Session

from tunebook.cache.errors import BudgetError, DatabaseError
from tunebook.cache.storage.identities import insert_missing
from tunebook.cache.storage.moments import now
from tunebook.cache.storage.tables import BudgetRow, JobRow, ModelRow
from tunebook.cache.work import Budget


def read_budget(session: Session, job_id: int) -> Budget:
    """See Store.budget."""
    row = session.execute(
        select(BudgetRow).join(JobRow, JobRow.budget_id == BudgetRow.id).where(JobRow.id == job_id)
    ).scalar_one_or_none()
    if row is None:
        raise DatabaseError(f"there is no job {job_id} in this database")
    return Budget(row.id, row.trial_limit, row.granted, row.spent, row.board_seconds)


def ensure_budget(session: Session, model: ModelRow) -> int:
    """The id of the budget that all jobs of a model's digest, shapes, target and compiler share."""
    identity = {
        "digest": model.digest,
        "shapes": model.shapes,
        "target_id": model.target_id,
        "compiler": model.compiler,
    }
    insert_missing(session, BudgetRow, {**identity})
    return session.execute(select(BudgetRow.id).filter_by(**identity)).scalar_one()


def set_limit(session: Session, budget_id: int, trials: int | None, more: int | None) -> bool:
    """Locks the budget and sets its limit as Store.submit_job says; gives whether it allows more
    trials than before. Raises BudgetError."""
    row = session.execute(
        select(BudgetRow).where(BudgetRow.id == budget_id).with_for_update(key_share=True)
    ).scalar_one()
    if trials is not None and more is not None:
        raise BudgetError("--trials sets the total and --more adds to it; give one of them")
    if trials is None and more is None:
        return False
    if (trials or more or 0) < 0:
        raise BudgetError("a number of trials cannot be negative")
    before = row.trial_limit
    # What is left of an earlier total stays: more never means less.
    wanted = max(before, row.spent + more) if more is not None else (trials or 0)
    # Trials in flight stay granted, whatever the new limit.
    limit = max(wanted, row.granted)
    session.execute(update(BudgetRow).where(BudgetRow.id == budget_id).values(trial_limit=limit))
    return limit > before


def lower_limit(session: Session, job_id: int, trials: int) -> None:
    """See Store.lower_budget."""
    budget = session.execute(
        select(BudgetRow.id, BudgetRow.trial_limit, BudgetRow.granted)
        .where(BudgetRow.id == _budget_of(job_id))
        .with_for_update(key_share=True)
    ).one()
    limit = max(budget.granted, budget.trial_limit - trials)
    session.execute(update(BudgetRow).where(BudgetRow.id == budget.id).values(trial_limit=limit))


def reserve(session: Session, job_id: int, trials: int) -> int:
    """Grants as many trials as are left, up to `trials`; gives how many."""
    budget = session.execute(
        select(BudgetRow.id, BudgetRow.trial_limit, BudgetRow.granted, in_time().label("in_time"))
        .where(BudgetRow.id == _budget_of(job_id))
        .with_for_update(key_share=True)
    ).one()
    grant = min(trials, int(budget.trial_limit - budget.granted)) if budget.in_time else 0
    if grant <= 0:
        return 0
    session.execute(
        update(BudgetRow).where(BudgetRow.id == budget.id).values(granted=BudgetRow.granted + grant)
    )
    return grant


def is_in_time(session: Session, job_id: int) -> bool:
    """Whether what was granted may still be used."""
    return bool(
        session.execute(select(in_time()).where(BudgetRow.id == _budget_of(job_id))).scalar_one()
    )


def in_time() -> ColumnElement[bool]:
    """Of a budget that reached none of its limits but perhaps that of trials."""
    return and_(
        or_(BudgetRow.deadline.is_(None), BudgetRow.deadline > now()),
        or_(BudgetRow.seconds_limit.is_(None), BudgetRow.used_seconds < BudgetRow.seconds_limit),
        or_(
            BudgetRow.board_seconds_limit.is_(None),
            BudgetRow.board_seconds < BudgetRow.board_seconds_limit,
        ),
    )


def charge(session: Session, job_id: int) -> None:
    """Spends a trial that was reserved."""
    session.execute(
        update(BudgetRow)
        .where(BudgetRow.id == _budget_of(job_id))
        .values(spent=BudgetRow.spent + 1)
    )


def charge_anew(session: Session, job_id: int) -> bool:
    """Spends a trial that nothing was reserved for, where the budget has room; gives whether."""
    charged = session.execute(
        update(BudgetRow)
        .where(BudgetRow.id == _budget_of(job_id), BudgetRow.granted + 1 <= BudgetRow.trial_limit)
        .values(granted=BudgetRow.granted + 1, spent=BudgetRow.spent + 1)
        .returning(BudgetRow.id)
    ).first()
    return charged is not None


def give_back(session: Session, job_id: int, trials: int) -> None:
    """Returns trials that were reserved and not charged."""
    if not trials:
        return
    session.execute(
        update(BudgetRow)
        .where(BudgetRow.id == _budget_of(job_id))
        .values(granted=BudgetRow.granted - trials)
    )


def charge_board(session: Session, job_id: int, seconds: float) -> None:
    """Adds what a measurement cost the board."""
    session.execute(
        update(BudgetRow)
        .where(BudgetRow.id == _budget_of(job_id))
        .values(board_seconds=BudgetRow.board_seconds + seconds)
    )


def _budget_of(job_id: int) -> ScalarSelect[Any]:
    return select(JobRow.budget_id).where(JobRow.id == job_id).scalar_subquery()
