"""Rounds in the database: proposed, claimed, filled slot by slot, finished.

Every write of a worker says which epoch of the round it claimed; when no row has that epoch any
more, another worker took the round over and the write is refused with LeaseLostError.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from tunebook.cache.errors import DatabaseError, LeaseLostError
from tunebook.cache.queue.budgets import give_back, in_time
from tunebook.cache.queue.finished_rounds import read_finished_round
from tunebook.cache.queue.job_events import ROUND, append_event
from tunebook.cache.queue.leases import Lease, LeaseObserver, freed
from tunebook.cache.queue.submissions import SEARCH
from tunebook.cache.records import Candidate, Source
from tunebook.cache.storage.announcements import announce_work
from tunebook.cache.storage.identities import insert_missing
from tunebook.cache.storage.moments import now
from tunebook.cache.storage.tables import (
    CLOSED,
    FINISHED,
    OPEN,
    BudgetRow,
    JobRow,
    RecordRow,
    RoundRow,
    SlotRow,
    TaskRow,
)
from tunebook.cache.stored.suspect_records import is_suspect
from tunebook.cache.work import RoundProposal


def propose_rounds(
    session: Session, observer: LeaseObserver, job_id: int, proposals: Sequence[RoundProposal]
) -> int:
    """See Store.propose_rounds."""
    # Locked: a round must not be opened in a job that is being finished.
    job = session.scalars(
        select(JobRow).where(JobRow.id == job_id).with_for_update(key_share=True)
    ).one_or_none()
    if job is None:
        raise DatabaseError(f"there is no job {job_id} in this database")
    if job.state != OPEN:
        return 0
    tasks = {
        task.id: task for task in session.scalars(select(TaskRow).where(TaskRow.job_id == job_id))
    }
    for proposal in proposals:
        if proposal.task_id not in tasks:
            raise DatabaseError(f"task {proposal.task_id} is not one of job {job_id}")
    dead = dead_leases(session, observer)
    inherited: list[tuple[int, int, dict[str, Any]]] = []
    # Two planners with the same workloads wait for each other's rows in one order, never crosswise.
    for proposal in sorted(proposals, key=lambda proposal: tasks[proposal.task_id].workload_id):
        values = _proposed(job, tasks[proposal.task_id], proposal)
        if not insert_missing(session, RoundRow, values):
            closing = _change_or_take_over(session, job, values, dead)
            if closing is not None:
                inherited.append((*closing, values))
    # Budgets come after all rounds, as in every other transaction, and in one order too.
    for _, round_id, values in sorted(inherited, key=lambda one: one[:2]):
        close_round(session, round_id, CLOSED)
        insert_missing(session, RoundRow, values)
    return session.execute(
        select(func.count()).where(RoundRow.job_id == job_id, RoundRow.state == OPEN)
    ).scalar_one()


def _proposed(job: JobRow, task: TaskRow, proposal: RoundProposal) -> dict[str, Any]:
    return {
        "job_id": job.id,
        "task_id": task.id,
        "workload_id": task.workload_id,
        "target_id": task.target_id,
        "emulated": job.emulated,
        "size": proposal.size,
        "gain": proposal.gain,
    }


def _change_or_take_over(
    session: Session, job: JobRow, values: dict[str, Any], dead: Collection[Lease]
) -> tuple[int, int] | None:
    """Makes the open round of a workload on a target what is proposed, unless somebody holds it.

    Gives the ids of its budget and itself where it must be closed and opened anew: it has another
    job's grant and slots.
    """
    row: RoundRow | None = session.scalars(
        select(RoundRow)
        .where(
            RoundRow.workload_id == values["workload_id"],
            RoundRow.target_id == values["target_id"],
            RoundRow.state == OPEN,
        )
        .with_for_update()
        .execution_options(populate_existing=True)
    ).one_or_none()
    if row is None or (row.worker is not None and Lease.of(row) not in dead):
        return None
    if row.job_id != job.id and _stays_with_its_job(session, row, job, values["gain"]):
        return None
    if row.granted is None:
        session.execute(update(RoundRow).where(RoundRow.id == row.id).values(**values))
        return None
    if row.job_id != job.id:
        return session.get_one(JobRow, row.job_id).budget_id, row.id
    # Its slots are numbered within what was granted: only the gain may change.
    row.gain = values["gain"]
    return None


def _stays_with_its_job(session: Session, row: RoundRow, proposing: JobRow, gain: float) -> bool:
    """Whether a round is left to the job that has it, when another one that is searched for too
    proposes it: the one that gains most has it, and what was begun is gone on with. Both are run by
    the same workers; one whose budget grants nothing stands in nobody's way."""
    if not (proposing.submitted and proposing.stage == SEARCH):
        return False
    begun = row.granted is not None
    going_on = (
        select(JobRow.id)
        .join(BudgetRow, BudgetRow.id == JobRow.budget_id)
        .where(
            JobRow.id == row.job_id,
            JobRow.submitted,
            JobRow.state == OPEN,
            JobRow.stage == SEARCH,
            JobRow.board_class == proposing.board_class,
            in_time(),
        )
    )
    if begun:
        return session.scalar(going_on) is not None
    granting = going_on.where(BudgetRow.granted < BudgetRow.trial_limit)
    return row.gain >= gain and session.scalar(granting) is not None


def withdraw_rounds(session: Session, job_id: int) -> None:
    """See Store.withdraw_rounds."""
    # Whoever has one locked is claiming it, or taking it over.
    unwanted = session.scalars(
        select(RoundRow.id)
        .where(
            RoundRow.job_id == job_id,
            RoundRow.state == OPEN,
            RoundRow.worker.is_(None),
            RoundRow.granted.is_(None),
        )
        .with_for_update(skip_locked=True)
    ).all()
    for round_id in unwanted:
        close_round(session, round_id, CLOSED)


def dead_leases(session: Session, observer: LeaseObserver) -> list[Lease]:
    """Those of the claimed rounds, in the order in which rounds are locked."""
    claimed = session.scalars(
        select(RoundRow)
        .where(RoundRow.state == OPEN, RoundRow.worker.is_not(None))
        .order_by(RoundRow.workload_id)
    ).all()
    return observer.dead(claimed)


def candidate_of(row: SlotRow) -> Candidate:
    return Candidate(row.trace, row.module_hash, Source(row.source), row.origin)


def beat(session: Session, round_id: int, epoch: int) -> None:
    """See Store.beat."""
    changed = session.execute(
        update(RoundRow)
        .where(RoundRow.id == round_id, RoundRow.epoch == epoch, RoundRow.state == OPEN)
        .values(beat=RoundRow.beat + 1)
        .returning(RoundRow.id)
    ).first()
    if changed is None:
        raise LeaseLostError(
            f"round {round_id} was taken over by another worker, or closed; leave it and claim anew"
        )


def finish_round(session: Session, round_id: int, epoch: int, seconds: float | None) -> None:
    """See Store.finish_round."""
    beat(session, round_id, epoch)
    session.execute(update(RoundRow).where(RoundRow.id == round_id).values(seconds=seconds))
    close_round(session, round_id, FINISHED)
    # The workload is free for another round, and the budget for what this one was not charged.
    announce_work(session)
    finished = read_finished_round(session, round_id)
    if finished is not None:
        append_event(session, finished.job_id, ROUND, finished.as_event())


def release_round(session: Session, round_id: int, epoch: int) -> None:
    """See Store.release_round."""
    beat(session, round_id, epoch)
    session.execute(update(RoundRow).where(RoundRow.id == round_id).values(**freed(RoundRow)))
    announce_work(session)


def close_open_rounds(session: Session, job_id: int) -> None:
    """Closes all that a job has, whoever holds them."""
    # All are locked before the first gives back to the budget: a claim locks in that order too.
    open_rounds = session.scalars(
        select(RoundRow.id)
        .where(RoundRow.job_id == job_id, RoundRow.state == OPEN)
        .order_by(RoundRow.workload_id)
        .with_for_update()
    ).all()
    for round_id in open_rounds:
        close_round(session, round_id, CLOSED)
    if open_rounds:
        announce_work(session)


def close_round(session: Session, round_id: int, state: str) -> None:
    """Ends a round as `finished` or `closed`; what was granted and not charged goes back."""
    row = session.execute(
        select(RoundRow).where(RoundRow.id == round_id).with_for_update()
    ).scalar_one()
    charged = session.execute(
        select(func.count()).where(SlotRow.round_id == round_id, SlotRow.charged)
    ).scalar_one()
    give_back(session, row.job_id, (row.granted or 0) - charged)
    best = session.scalar(
        select(func.min(RecordRow.seconds)).where(
            RecordRow.workload_id == row.workload_id,
            RecordRow.target_id == row.target_id,
            RecordRow.emulated == row.emulated,
            RecordRow.source != Source.IMPORT.value,
            ~is_suspect(),
        )
    )
    session.execute(
        update(RoundRow)
        .where(RoundRow.id == round_id)
        .values(
            **freed(RoundRow),
            state=state,
            granted=charged,
            best_seconds=best,
            finished_at=now(),
        )
    )
