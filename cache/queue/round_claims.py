"""Claiming rounds: the highest gain that a worker can run, with trials of its budget."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, or_, select
from sqlalchemy.orm import Session

from tunebook.cache.queue.budgets import in_time, is_in_time, reserve
from tunebook.cache.queue.leases import LeaseObserver, claim, expire
from tunebook.cache.queue.rounds import candidate_of, close_round, dead_leases
from tunebook.cache.queue.submissions import SEARCH
from tunebook.cache.storage.identities import key_of
from tunebook.cache.storage.tables import (
    CLOSED,
    OPEN,
    BudgetRow,
    JobRow,
    RoundRow,
    SlotRow,
    TargetRow,
    WorkloadRow,
)
from tunebook.cache.work import ClaimedRound, Slot


@dataclass(frozen=True)
class WantedRounds:
    """Which open rounds a worker claims: of these jobs, of these board classes, of these tasks,
    where given; with `searched`, those that submitted jobs search for."""

    job_ids: Collection[int] | None = None
    board_classes: Collection[str] | None = None
    task_ids: Collection[int] | None = None
    searched: bool = False


@dataclass(frozen=True)
class RoundClaim:
    """The round that was claimed, if any. `again`: one was closed instead, since its budget grants
    nothing; the next is claimed in a transaction of its own, as it may lock another budget."""

    round: ClaimedRound | None = None
    again: bool = False


def claim_round(
    session: Session, observer: LeaseObserver, worker: str, wanted: WantedRounds
) -> RoundClaim:
    """See Store.claim_round."""
    expire_dead_leases(session, observer)
    row: RoundRow | None = session.scalars(_free_rounds(wanted)).first()
    if row is None:
        return RoundClaim()
    if row.granted is None:
        row.granted = reserve(session, row.job_id, row.size)
        session.flush()
        may_run = row.granted > 0
    else:
        may_run = row.granted > 0 and is_in_time(session, row.job_id)
    if not may_run:
        close_round(session, row.id, CLOSED)
        return RoundClaim(again=True)
    claim(row, worker)
    session.flush()
    return RoundClaim(_claimed(session, row))


def expire_dead_leases(session: Session, observer: LeaseObserver) -> None:
    expire(session, RoundRow, dead_leases(session, observer))


def _free_rounds(wanted: WantedRounds) -> Select[Any]:
    statement = (
        select(RoundRow)
        .join(JobRow, JobRow.id == RoundRow.job_id)
        .where(RoundRow.state == OPEN, RoundRow.worker.is_(None), JobRow.state == OPEN)
        .order_by(RoundRow.gain.desc(), RoundRow.id)
        .limit(1)
        .with_for_update(skip_locked=True, of=RoundRow)
        .execution_options(populate_existing=True)
    )
    if wanted.job_ids is not None:
        statement = statement.where(RoundRow.job_id.in_(wanted.job_ids))
    if wanted.board_classes is not None:
        statement = statement.where(JobRow.board_class.in_(wanted.board_classes))
    if wanted.task_ids is not None:
        statement = statement.where(RoundRow.task_id.in_(wanted.task_ids))
    if wanted.searched:
        statement = statement.join(BudgetRow, BudgetRow.id == JobRow.budget_id).where(
            JobRow.submitted,
            JobRow.stage == SEARCH,
            # What nothing can be granted to is passed over: it may be granted later, when rounds
            # in flight give back, and else is closed with its job.
            or_(RoundRow.granted.is_not(None), BudgetRow.granted < BudgetRow.trial_limit),
            in_time(),
        )
    return statement


def _claimed(session: Session, row: RoundRow) -> ClaimedRound:
    workload, target, board_class = session.execute(
        select(WorkloadRow, TargetRow.text, JobRow.board_class)
        .join(RoundRow, RoundRow.workload_id == WorkloadRow.id)
        .join(TargetRow, TargetRow.id == RoundRow.target_id)
        .join(JobRow, JobRow.id == RoundRow.job_id)
        .where(RoundRow.id == row.id)
    ).one()
    return ClaimedRound(
        id=row.id,
        epoch=row.epoch,
        job_id=row.job_id,
        task_id=row.task_id,
        key=key_of(workload, target),
        size=row.granted or 0,
        slots=tuple(_read_slots(session, row.id)),
        board_class=board_class,
        emulated=row.emulated,
    )


def _read_slots(session: Session, round_id: int) -> list[Slot]:
    rows = session.scalars(
        select(SlotRow).where(SlotRow.round_id == round_id).order_by(SlotRow.number)
    )
    return [Slot(row.number, candidate_of(row), row.record_id) for row in rows]
