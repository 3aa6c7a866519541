"""Submitted jobs for the tests of the queue."""

from __future__ import annotations

from contextlib import closing

from cache_samples import A76, BOARD, conv, model_of, propose_all

from tunebook.cache.queue.fleet import ServedBoard
from tunebook.cache.queue.job_events import ROUND, append_event
from tunebook.cache.queue.submissions import BudgetLimits, ClaimedStage, JobRequest
from tunebook.cache.records import Workload
from tunebook.cache.storage.database import Database
from tunebook.cache.store import ClaimedRound, Store

SERVED = ServedBoard(BOARD, "board-1", emulated=False, cores=4)
TRIALS = BudgetLimits(trials=100)


def request_for(*workloads: Workload, target: str = A76, board_class: str = BOARD) -> JobRequest:
    model = model_of(workloads or [conv()], target=target)
    return JobRequest(model.digest, model.shapes, target, board_class)


def submit(
    store: Store, *workloads: Workload, budget: BudgetLimits | int = TRIALS, target: str = A76
) -> int:
    return store.queue.submit(request_for(*workloads, target=target), budget).job_id


def append_events(url: str, job: int, count: int) -> list[int]:
    """Tells so many things of a job, each in a transaction of its own; gives their numbers."""
    with closing(Database.open(url)) as database:
        return [_append_event(database, job, number) for number in range(count)]


def _append_event(database: Database, job: int, number: int) -> int:
    with database.writing() as session:
        return append_event(session, job, ROUND, {"told": number})


def claim_split(store: Store, worker: str = "splitter") -> ClaimedStage | None:
    return store.queue.claim_stage(worker, ["split"], [])


def claim_recovery(store: Store, worker: str = "recoverer") -> ClaimedStage | None:
    return store.queue.claim_stage(worker, ["recover"], [BOARD])


def split(store: Store, *workloads: Workload, target: str = A76) -> None:
    """Splits the job that is first in the queue."""
    model = store.save_model(model_of(workloads or [conv()], target=target))
    claimed = claim_split(store)
    assert claimed is not None
    store.queue.finish_split(claimed.job_id, claimed.epoch, model)


def recover(store: Store) -> None:
    """Recovers the job that is first in the queue, without finding anything."""
    claimed = claim_recovery(store)
    assert claimed is not None
    store.queue.finish_recovery(claimed.job_id, claimed.epoch)


def submit_searched(
    store: Store, *workloads: Workload, budget: BudgetLimits | int = TRIALS, target: str = A76
) -> int:
    """A job that wants search rounds, where no other is in the queue before it."""
    job = submit(store, *workloads, budget=budget, target=target)
    split(store, *workloads, target=target)
    recover(store)
    return job


def claim_searched(store: Store, worker: str = "worker") -> ClaimedRound | None:
    return store.claim_round(worker, board_classes=[BOARD], searched=True)


def claim_new_searched(store: Store, job: int, size: int = 8) -> ClaimedRound:
    """Proposes and claims a round of the job's first task."""
    propose_all(store, job, size)
    claimed = claim_searched(store)
    assert claimed is not None
    assert claimed.job_id == job
    return claimed
