"""Which rounds a worker claims over all submitted jobs, in a real database."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from tunebook.cache.keys import WorkloadKey
from tunebook.cache.queue.submissions import BudgetLimits, JobRequest
from tunebook.cache.records import Candidate, Measurement, Model, Task, Workload
from tunebook.cache.store import ClaimedRound, Store
from tunebook.tuner.compiler import compiler_text
from tunebook.tuner.search.allocation import RoundSizes
from tunebook.workers.rounds.job_planner import JobPlanner

A53 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53 -num-cores=4"
A76 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4"
PI, ROCK = "pi", "rock"
WORKER = "worker"
MANY = 1000
PLAN_ALL_SECONDS = 31.0


class Clock:
    """A monotonic clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(str(tmp_path / "tunebook.db")) as opened:
        yield opened


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def planner(store: Store, clock: Clock) -> JobPlanner:
    return JobPlanner(store, WORKER, RoundSizes(), monotonic=clock)


def model_of(
    *sizes: int, target: str = A76, compiler: str | None = None, weights: tuple[int, ...] = ()
) -> Model:
    """A model of one task for each size."""
    built_by = compiler or compiler_text()
    tasks = []
    for size, weight in zip(sizes, weights or (1,) * len(sizes), strict=True):
        buffers = f"f32[{size}] -> f32[{size}]"
        digest = sha256(buffers.encode()).hexdigest()[:16]
        key = WorkloadKey("relu", buffers, built_by, digest)
        tasks.append(Task(Workload(key, f"tir of {size}", float(size)), weight))
    digest = sha256(f"{sizes} {target}".encode()).hexdigest()
    return Model(digest, "x=1", target, built_by, "", tuple(tasks))


def searching(
    store: Store,
    model: Model,
    budget: BudgetLimits | int,
    board_class: str = PI,
    priority: float = 1.0,
) -> int:
    """A submitted job that is searched for, each of its tasks a millisecond untuned."""
    request = JobRequest(model.digest, "", model.target, board_class, priority=priority)
    job_id = store.queue.submit(request, budget).job_id
    split = store.queue.claim_stage(WORKER, ["split"], [board_class])
    assert split is not None
    store.queue.finish_split(job_id, split.epoch, store.save_model(model))
    for task in store.task_states(job_id):
        store.set_untuned_seconds(task.id, 1e-3)
    recovery = store.queue.claim_stage(WORKER, ["recover"], [board_class])
    assert recovery is not None
    store.queue.finish_recovery(job_id, recovery.epoch)
    return job_id


def run(store: Store, claimed: ClaimedRound, seconds: float = 1e-4) -> None:
    """One trial of a round, whose rest goes back."""
    candidate = Candidate("[[], []]", f"module {claimed.id}")
    (slot,) = store.store_candidates(claimed.id, claimed.epoch, [candidate])
    measured = Measurement(run_seconds=(seconds,), board_class=claimed.board_class)
    store.store_result(claimed.id, claimed.epoch, slot.number, measured)
    store.finish_round(claimed.id, claimed.epoch, 1.0)


def test_a_batch_is_of_one_target_one_board_class_and_one_budget(
    store: Store, planner: JobPlanner
) -> None:
    night, _ = store.queue.create_budget("night", BudgetLimits(trials=MANY))
    first = searching(store, model_of(1, 2), night, priority=9.0)
    alike = searching(store, model_of(3), night)
    searching(store, model_of(4, target=A53), night)
    searching(store, model_of(5), night, board_class=ROCK)
    searching(store, model_of(6), BudgetLimits(trials=MANY))
    batch = planner.claim([PI, ROCK], MANY)
    assert batch is not None
    assert batch.budget_id == night
    assert [one.job_id for one in batch.rounds] == [first, first, alike]


def test_rounds_are_claimed_until_they_hold_the_trials_that_are_wanted(
    store: Store, planner: JobPlanner
) -> None:
    searching(store, model_of(1, 2, 3), BudgetLimits(trials=MANY))
    batch = planner.claim([PI], 17)
    assert batch is not None
    assert [one.size for one in batch.rounds] == [16, 16]


def test_the_round_with_the_highest_gain_of_all_jobs_comes_first(
    store: Store, planner: JobPlanner
) -> None:
    searching(store, model_of(1), BudgetLimits(trials=MANY), priority=1.0)
    urgent = searching(store, model_of(2), BudgetLimits(trials=MANY), priority=5.0)
    batch = planner.claim([PI], 1)
    assert batch is not None
    assert [one.job_id for one in batch.rounds] == [urgent]


def test_jobs_on_boards_of_others_are_left_to_them(store: Store, planner: JobPlanner) -> None:
    searching(store, model_of(1), BudgetLimits(trials=MANY), board_class=ROCK)
    assert planner.claim([PI], MANY) is None


def test_jobs_that_share_a_budget_leave_each_other_a_first_trial(
    store: Store, planner: JobPlanner
) -> None:
    night, _ = store.queue.create_budget("night", BudgetLimits(trials=6))
    jobs = [searching(store, model_of(*sizes), night) for sizes in ((1, 2), (3, 4), (5, 6))]
    batch = planner.claim([PI], 6)
    assert batch is not None
    assert sorted(one.job_id for one in batch.rounds) == sorted([*jobs, *jobs])


def test_what_another_compiler_split_is_left_to_others_and_said_once(
    store: Store, planner: JobPlanner, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    job_id = searching(store, model_of(1, compiler="tvm-0.1+llvm-9"), BudgetLimits(trials=9))
    for _ in range(2):
        assert planner.claim([PI], MANY) is None
        clock.now += PLAN_ALL_SECONDS
    (said,) = caplog.records
    assert "tvm-0.1+llvm-9" in said.getMessage()
    assert said.__dict__["job"] == job_id


def test_what_a_worker_cannot_do_is_not_claimed_again(store: Store, planner: JobPlanner) -> None:
    impossible = searching(store, model_of(1), BudgetLimits(trials=MANY), priority=9.0)
    possible = searching(store, model_of(2), BudgetLimits(trials=MANY))
    planner.claim([PI], 1)
    planner.leave_out(impossible, "nothing here links for it")
    batch = planner.claim([PI], 1)
    assert batch is not None
    assert [one.job_id for one in batch.rounds] == [possible]


def test_jobs_with_a_workload_of_a_finished_round_are_planned_anew(
    store: Store, planner: JobPlanner
) -> None:
    """The second job's only task is the first one's too, whose round stands for both."""
    searching(store, model_of(1), BudgetLimits(trials=1))
    second = searching(store, model_of(1, 2), BudgetLimits(trials=MANY))
    batch = planner.claim([PI], 1)
    assert batch is not None
    run(store, batch.rounds[0])
    planner.finished(batch.rounds)
    claimed = planner.claim([PI], MANY)
    assert claimed is not None
    assert {one.job_id for one in claimed.rounds} == {second}


def test_what_other_workers_finished_is_planned_anew_after_a_while(
    store: Store, planner: JobPlanner, clock: Clock
) -> None:
    searching(store, model_of(1), BudgetLimits(trials=MANY))
    batch = planner.claim([PI], 1)
    assert batch is not None
    run(store, batch.rounds[0])
    assert planner.claim([PI], 1) is None, "nobody told it"
    clock.now += PLAN_ALL_SECONDS
    assert planner.claim([PI], 1) is not None


def test_a_worker_with_nothing_to_do_looks_again_within_seconds(
    store: Store, planner: JobPlanner, clock: Clock
) -> None:
    searching(store, model_of(1), BudgetLimits(trials=MANY))
    batch = planner.claim([PI], 1)
    assert batch is not None
    run(store, batch.rounds[0])
    assert planner.claim([PI], 1) is None
    planner.nothing_to_do()
    clock.now += 2.0
    assert planner.claim([PI], 1) is not None


def test_a_job_that_ended_is_forgotten(store: Store, planner: JobPlanner) -> None:
    job_id = searching(store, model_of(1), BudgetLimits(trials=MANY))
    batch = planner.claim([PI], 1)
    assert batch is not None
    store.queue.cancel(job_id)
    planner.finished(batch.rounds)
    assert planner.claim([PI], 1) is None
