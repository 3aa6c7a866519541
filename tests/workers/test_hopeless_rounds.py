"""A task whose search ends each process that begins it must not end a whole fleet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tunebook.cache.keys import WorkloadKey
from tunebook.cache.records import Candidate, Model, Task, Workload
from tunebook.cache.store import ClaimedRound, RoundProposal, Store
from tunebook.workers.rounds.hopeless_rounds import give_hopeless_up

ENDED = 3


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(str(tmp_path / "tunebook.db")) as opened:
        yield opened


@pytest.fixture
def job_id(store: Store) -> int:
    """A job of one task, with a round."""
    key = WorkloadKey("relu", "f32[8] -> f32[8]", "tvm", "0123456789abcdef")
    model = Model("00" * 32, "x=8", "llvm", "tvm", "", (Task(Workload(key, "tir", 8.0), 1),))
    job = store.submit_job(store.save_model(model), "local", trials=9, more=None)
    (task,) = store.task_states(job)
    store.propose_rounds(job, [RoundProposal(task.id, 4, 1.0)])
    return job


def claim_after(store: Store, endings: int) -> ClaimedRound:
    """The round's next claim after so many workers ended, each of which had claimed it."""
    for _ in range(endings):
        claimed = store.claim_round("worker")
        assert claimed is not None
        store.release_round(claimed.id, claimed.epoch)
    again = store.claim_round("worker")
    assert again is not None
    return again


def test_a_round_at_which_too_many_workers_ended_is_given_up(store: Store, job_id: int) -> None:
    claimed = claim_after(store, ENDED)
    assert give_hopeless_up(store, [claimed]) == []
    (task,) = store.task_states(job_id)
    assert task.exhausted
    assert store.budget(job_id).granted == 0


def test_of_rounds_that_were_claimed_together_it_is_the_first_ones_fault(
    store: Store, job_id: int
) -> None:
    claimed = claim_after(store, ENDED)
    behind = replace(claimed, id=claimed.id + 1)
    assert give_hopeless_up(store, [claimed, behind]) == [behind]


def test_a_round_at_which_fewer_ended_is_tried_again(store: Store, job_id: int) -> None:
    claimed = claim_after(store, ENDED - 1)
    assert give_hopeless_up(store, [claimed]) == [claimed]


def test_a_round_that_has_candidates_is_gone_on_with(store: Store, job_id: int) -> None:
    claimed = store.claim_round("worker")
    assert claimed is not None
    store.store_candidates(claimed.id, claimed.epoch, [Candidate("[[], []]", "a module")])
    store.release_round(claimed.id, claimed.epoch)
    again = claim_after(store, ENDED)
    assert give_hopeless_up(store, [again]) == [again]
