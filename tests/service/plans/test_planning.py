"""From what is to be tuned and what the store knows to a forecast."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tunebook.cache.boards.board_reports import ClassDefaults
from tunebook.cache.boards.drift import FEWEST_RUNS
from tunebook.cache.errors import BudgetError, TargetError
from tunebook.cache.keys import WorkloadKey
from tunebook.cache.queue.fleet import ServedBoard
from tunebook.cache.records import Candidate, Measurement, Model, Task, Workload
from tunebook.cache.storage.database import upgrade
from tunebook.cache.store import RoundProposal, Store
from tunebook.service.plans.plan_documents import PlanDocument, PlanJobSubmission, PlanSubmission
from tunebook.service.plans.planning import make_plan

A76 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4"
A53 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53 -num-cores=4"
NOW = datetime(2027, 1, 31, 20, 0, tzinfo=timezone.utc)
DIGEST = sha256(b"a model").hexdigest()


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with our schema and nothing in it: copying it is quicker than making another."""
    path = tmp_path_factory.mktemp("empty") / "tunebook.db"
    upgrade(str(path))
    return path


@pytest.fixture
def store(empty_database: Path, tmp_path: Path) -> Iterator[Store]:
    path = str(shutil.copy(empty_database, tmp_path))
    # A worker that announced itself is there for as long as its test, however the machine pauses.
    with Store.open(path, lease_seconds=600) as opened:
        yield opened


def _model(tasks: int = 2, target: str = A76) -> Model:
    workloads = [
        Workload(
            WorkloadKey(f"op{n}", "f32[1] -> f32[1]", "tvm-0.27.0+llvm-22", f"{n:016x}"),
            "its program",
            1.0,
        )
        for n in range(tasks)
    ]
    split = tuple(Task(workload, 1) for workload in workloads)
    return Model(DIGEST, "x=1,8", target, "tvm-0.27.0+llvm-22", "", split)


def _tuned(store: Store, *, trials: int = 4, seconds: float = 8.0) -> int:
    """A job whose every task had one round of so many trials, which took so long."""
    job = store.submit_job(store.save_model(_model()), "pi5", trials=1000, more=None)
    for task in store.task_states(job):
        store.set_untuned_seconds(task.id, 4e-3)
        store.propose_rounds(job, [RoundProposal(task.id, trials, 1.0)])
        claimed = store.claim_round("worker", job)
        assert claimed is not None
        wanted = [Candidate("[[], []]", f"{task.id}-{n}") for n in range(trials)]
        for slot in store.store_candidates(claimed.id, claimed.epoch, wanted):
            measured = Measurement(
                run_seconds=(1e-3,), board="pi-1", board_class="pi5", board_seconds=0.5
            )
            store.store_result(claimed.id, claimed.epoch, slot.number, measured)
        store.finish_round(claimed.id, claimed.epoch, seconds)
    return job


def _plan(store: Store | None, *jobs: dict[str, Any], **given: Any) -> PlanDocument:
    wanted = [
        PlanJobSubmission(**{"model": DIGEST, "target": A76, "board_class": "pi5", **job})
        for job in jobs or ({},)
    ]
    return make_plan(store, PlanSubmission.model_validate({"jobs": wanted, **given}), NOW)


def test_measured_rates_are_what_a_plan_takes(store: Store) -> None:
    _tuned(store, trials=4, seconds=8.0)
    plan = _plan(store, trials_per_job=108)
    # 8 of the 108 it has had; 2 s a trial, half a second of it on the board.
    assert (plan.demand.trials, plan.demand.seconds, plan.demand.board_seconds) == (
        100,
        200.0,
        50.0,
    )


def test_without_a_number_of_trials_each_task_is_to_have_its_own(store: Store) -> None:
    _tuned(store)
    assert _plan(store, trials_per_task=64).demand.trials == 2 * 64 - 8


def test_a_budget_of_trials_is_shared_out(store: Store) -> None:
    _tuned(store)
    plan = _plan(store, {}, {"target": A53}, budget={"trials": 1000})
    assert (plan.demand.trials, plan.fits) == (1000, True)


def test_a_budget_below_one_trial_for_each_task_does_not_fit(store: Store) -> None:
    _tuned(store)
    plan = _plan(store, {}, {"target": A53}, budget={"trials": 3})
    assert (plan.fits, plan.short_of) == (False, ["trials"])
    assert plan.remedies is not None
    assert (plan.remedies.trials, plan.remedies.targets) == (4, 1)


def test_a_model_that_is_exhausted_wants_nothing_more(store: Store) -> None:
    job = _tuned(store)
    for task in store.task_states(job):
        store.set_exhausted(task.id)
    assert _plan(store, trials_per_job=5000).demand.trials == 0


def test_what_a_board_measured_that_had_drifted_is_no_reason_to_call_a_model_tuned(
    store: Store,
) -> None:
    for seconds in [1e-3] * FEWEST_RUNS:
        store.boards.note_reference("pi5", "pi-1", [seconds], {})
    _tuned(store)
    before = _plan(store, trials_per_task=64)
    for seconds in (2e-3, 2e-3):
        store.boards.note_reference("pi5", "pi-1", [seconds], {})
    after = _plan(store, trials_per_task=64)
    # Nobody knows how fast what was tried is, nor what another hour would win of it.
    assert (before.demand.trials, after.demand.trials) == (2 * 64 - 8, 2 * 64)
    assert (len(before.another_hour), len(after.another_hour)) == (1, 0)


def test_a_given_rate_stands_in_place_of_the_measured_one(store: Store) -> None:
    _tuned(store)
    assert _plan(store, trials_per_job=108, seconds_per_trial=0.25).demand.seconds == 25.0


def test_boards_that_are_there_share_the_work(store: Store) -> None:
    store.fleet.announce("w", [ServedBoard("pi5", f"pi-{n}", False, 4) for n in range(4)])
    plan = _plan(store, trials_per_job=100, seconds_per_trial=1.0)
    assert (plan.demand.classes[0].boards, plan.demand.seconds) == (4, 25.0)
    assert (
        _plan(store, trials_per_job=100, seconds_per_trial=1.0, boards={"pi5": 10}).demand.seconds
        == 10.0
    )


def test_the_time_until_the_deadline_is_all_there_is() -> None:
    until = {"deadline": NOW + timedelta(hours=2), "seconds": 10_000.0}
    plan = _plan(None, trials_per_job=7200, seconds_per_trial=1.0, budget=until)
    assert (plan.room.seconds, plan.fits) == (7200.0, True)


def test_a_deadline_that_is_over_is_refused() -> None:
    with pytest.raises(BudgetError, match="is over"):
        _plan(None, budget={"deadline": NOW})


def test_a_target_that_cannot_be_read_is_refused(store: Store) -> None:
    with pytest.raises(TargetError, match="mtriple"):
        _plan(store, {"target": "llvm -mcpu=cortex-a76 -num-cores=4"})


def test_a_target_without_cores_takes_those_of_the_boards_that_are_there(store: Store) -> None:
    _tuned(store)
    store.fleet.announce("w", [ServedBoard("pi5", "pi-1", False, 4)])
    plan = _plan(store, {"target": A76.replace(" -num-cores=4", "")}, trials_per_job=108)
    assert (plan.demand.trials, plan.assumptions) == (100, [])


@pytest.mark.parametrize("given", [None, "llvm", A76], ids=["nothing", "a part", "all"])
def test_what_a_target_leaves_out_the_class_supplies(store: Store, given: str | None) -> None:
    _tuned(store)
    store.boards.set_defaults("pi5", ClassDefaults(4, "aarch64-linux-gnu", "cortex-a76"))
    plan = _plan(store, {"target": given}, trials_per_job=108)
    # What was tuned for the whole target counts.
    assert plan.demand.trials == 100
    assert {one.target for one in plan.another_hour} == {A76}


def test_a_board_that_several_workers_have_counts_once(store: Store) -> None:
    for worker in ("first", "second"):
        store.fleet.announce(worker, [ServedBoard("pi5", "pi-1", False, 4)])
    assert [one.boards for one in _plan(store).demand.classes] == [1]


def test_boards_that_differ_in_their_cores_do_not_say_which_a_target_has(store: Store) -> None:
    store.fleet.announce("w", [ServedBoard("pi5", f"pi-{cores}", False, cores) for cores in (2, 4)])
    plan = _plan(store, {"target": A76.replace(" -num-cores=4", "")})
    assert any("the target has no -num-cores" in line for line in plan.assumptions)


@pytest.mark.parametrize(
    ("prepare", "job", "told"),
    [
        (lambda store: None, {}, "nor was any other: 20 tasks are assumed"),
        (
            lambda store: store.save_model(_model(7)),
            {"model": "0" * 64},
            "never split: 7 tasks are assumed, the mean",
        ),
        (
            lambda store: store.save_model(_model(7, A53)),
            {},
            "split for another target only",
        ),
        (lambda store: None, {}, "no trial was measured on boards of class pi5 yet: 1 s each"),
        (_tuned, {"target": A53}, "what they take for others on boards of class pi5: 2.00 s"),
        (lambda store: None, {}, "no worker serves boards of class pi5 now: one is assumed"),
        (
            lambda store: None,
            {"target": A76.replace(" -num-cores=4", "")},
            "the target has no -num-cores",
        ),
    ],
    ids=["no model", "other models", "other target", "no rate", "other rate", "no board", "cores"],
)
def test_what_is_assumed_is_said(
    store: Store, prepare: Any, job: dict[str, Any], told: str
) -> None:
    prepare(store)
    assert any(told in line for line in _plan(store, job).assumptions)


def test_alike_assumptions_are_one_line_with_the_number_of_jobs() -> None:
    plan = _plan(None, *({"name": f"m{n}"} for n in range(5)), seconds_per_trial=1.0)
    assert [line.partition(":")[0] for line in plan.assumptions] == ["5 jobs", "5 jobs"]


def test_another_hour_names_the_place_of_the_job_that_it_is_of(store: Store) -> None:
    _tuned(store)
    plan = _plan(store, {"model": "0" * 64}, {"name": "known"}, seconds_per_trial=1.0)
    (gain,) = plan.another_hour
    assert (gain.job, gain.model, gain.latency) == (1, "known", pytest.approx(2e-3))
    assert 0 < gain.share < 1
    assert gain.trials > 0


def test_planning_changes_nothing(store: Store) -> None:
    job = _tuned(store)
    before = (store.task_states(job), store.budget(job))
    _plan(store, trials_per_job=500)
    assert (store.task_states(job), store.budget(job)) == before
