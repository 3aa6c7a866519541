"""Schedules that are missing are made from near ones: on this machine as the board, without a
search."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tunebook.cache.misses import MissReason
from tunebook.cache.records import ErrorClass, Source
from tunebook.cache.store import Store
from tunebook.cache.targets import Target
from tunebook.tuner.llvm_targets import host_target, resolve_target
from tunebook.workers.boards.boards import BoardPlan
from tunebook.workers.commands.migration import MigrationReport, migrate
from tunebook.workers.commands.tuning import (
    BoardRequest,
    BudgetRequest,
    TuningPlan,
    plan_tuning,
    tune,
)
from tunebook.workers.recovery.recovery_trials import recovery_trials
from tunebook.workers.rounds.progress import Progress

pytestmark = pytest.mark.slow

TUNED_TRIALS = 6

# An annotation whose text would be compiled into the product, and a block that is not there.
HOSTILE = (
    '[[["GetSBlock", [], ["conv2d_nchw", "main"], ["b0"]], '
    '["Annotate", ["b0", "module asm"], ["pragma_import_llvm"], []]], []]'
)
TRACE_OF_OTHERS = '[[["GetSBlock", [], ["no such block", "main"], ["b0"]]], []]'

MakeModel = Callable[..., Path]


@pytest.fixture(scope="module")
def block(onnx_models: ModuleType) -> MakeModel:
    """Writes a small model, changed by these options, and gives its path."""

    def make(folder: Path, **change: Any) -> Path:
        path: Path = onnx_models.save(
            folder / "block.onnx", onnx_models.scaled_convolution(**change)
        )
        return path

    return make


def _ignore(progress: Progress) -> None:
    pass


def plan_for(path: Path, target: Target, trials: int | None = None) -> TuningPlan:
    return plan_tuning(
        path,
        target,
        shapes={},
        budget=BudgetRequest(trials=trials),
        board=BoardRequest(timeout=30),
    )


@pytest.fixture(scope="module")
def tuned(block: MakeModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that holds the tuned block, for this machine."""
    folder = tmp_path_factory.mktemp("tuned")
    path = folder / "tunebook.db"
    with Store.open(str(path)) as store:
        tune(plan_for(block(folder), host_target(), TUNED_TRIALS), store, _ignore)
    return path


@pytest.fixture
def store(tuned: Path, tmp_path: Path) -> Iterator[Store]:
    copy = tmp_path / "tunebook.db"
    copy.write_bytes(tuned.read_bytes())
    with Store.open(str(copy)) as opened:
        yield opened


def recover(store: Store, plan: TuningPlan, **options: Any) -> MigrationReport:
    return migrate(plan, store, _ignore, **options)


@pytest.mark.parametrize(
    ("change", "reason", "most_trials"),
    [
        pytest.param({"scale": 0.25}, MissReason.OTHER_CONSTANTS, 1, id="retrained"),
        pytest.param({"batch": 2}, MissReason.OTHER_SHAPE, 8, id="another batch"),
        pytest.param({"dilation": 2}, MissReason.OTHER_ATTRIBUTES, 8, id="another dilation"),
        pytest.param({"add": True}, MissReason.OTHER_FUSION, 8, id="another fusion"),
    ],
)
def test_what_a_changed_model_misses_is_made_from_the_old_models_traces(
    change: dict[str, Any],
    reason: MissReason,
    most_trials: int,
    block: MakeModel,
    store: Store,
    tmp_path: Path,
) -> None:
    plan = plan_for(block(tmp_path, **change), host_target())
    report = recover(store, plan)
    (task,) = report.tasks
    assert task.miss.reason is reason
    assert 1 <= task.trials <= most_trials
    assert report.answer.misses == ()
    assert task.served is not None
    assert task.served.candidate.source is Source.MIGRATION
    assert task.near is not None
    assert str(task.near.key) in task.served.candidate.origin


def test_an_equivalent_target_costs_no_trial(
    block: MakeModel, store: Store, tmp_path: Path
) -> None:
    host = host_target()
    # Every processor of the architecture has it, so that naming it changes nothing.
    given = "+sse2" if host.architecture == "x86_64" else "+neon"
    target = resolve_target(f"{host} -mattr={given}")
    report = recover(store, plan_for(block(tmp_path), target))
    (task,) = report.tasks
    assert (task.miss.reason, task.trials) == (MissReason.EQUIVALENT_TARGET, 0)
    assert report.answer.misses == ()
    assert task.served is not None
    assert "the same code" in task.served.candidate.origin


def test_another_target_is_measured_anew(block: MakeModel, store: Store, tmp_path: Path) -> None:
    target = host_target(num_cores=1)
    report = recover(store, plan_for(block(tmp_path), target))
    (task,) = report.tasks
    assert task.miss.reason is MissReason.OTHER_TARGET
    assert 1 <= task.trials <= recovery_trials(MissReason.OTHER_TARGET).most
    assert report.answer.misses == ()


def test_a_second_migration_finds_nothing_to_do(
    block: MakeModel, store: Store, tmp_path: Path
) -> None:
    plan = plan_for(block(tmp_path, scale=0.25), host_target())
    recover(store, plan)
    again = recover(store, plan)
    assert (again.tasks, again.trials) == ((), 0)


def test_what_failed_is_not_tried_again_but_what_comes_after_it(
    block: MakeModel, store: Store, tmp_path: Path
) -> None:
    plan = plan_for(block(tmp_path, batch=2), host_target())
    (first,) = recover(store, plan, trials_per_task=1).tasks
    assert first.served is not None
    store.mark_failed(first.served.id, ErrorClass.WRONG_OUTPUT, "it was wrong")
    (second,) = recover(store, plan, trials_per_task=1).tasks
    assert second.trials == 1
    assert second.served is not None
    assert second.served.candidate.module_hash != first.served.candidate.module_hash


def test_trials_of_a_migration_are_charged_and_leave_no_budget_behind(
    block: MakeModel, store: Store, tmp_path: Path
) -> None:
    plan = plan_for(block(tmp_path, batch=2), host_target())
    report = recover(store, plan, trials_per_task=3)
    assert report.trials == 3
    job = store.submit_job(store.save_model(plan.model), "local", trials=None, more=None)
    budget = store.budget(job)
    assert (budget.limit, budget.granted, budget.spent) == (3, 3, 3)


def test_a_round_that_a_killed_search_left_stands_in_no_migrations_way(
    block: MakeModel, store: Store, tmp_path: Path
) -> None:
    """It is of a task that is served, so no recipe is there for it."""
    known = plan_for(block(tmp_path), host_target())
    plan = plan_for(block(tmp_path, batch=2), host_target())
    both = replace(plan.model, digest="both", tasks=known.model.tasks + plan.model.tasks)
    job = store.submit_job(store.save_model(both), "local", trials=None, more=4)
    (served,) = [task for task in store.task_states(job) if task.served_seconds is not None]
    claim = (
        "from tunebook.cache.store import RoundProposal, Store\n"
        f"with Store.open({str(tmp_path / 'tunebook.db')!r}) as store:\n"
        f"    store.propose_rounds({job}, [RoundProposal({served.id}, 4, 1.0)])\n"
        f"    assert store.claim_round('killed', {job})\n"
    )
    subprocess.run([sys.executable, "-c", claim], check=True)
    report = recover(store, replace(plan, model=both), trials_per_task=1)
    assert report.answer.misses == ()
    assert report.trials == 1


def test_without_anything_near_nothing_is_measured(block: MakeModel, tmp_path: Path) -> None:
    with Store.open(str(tmp_path / "empty.db")) as store:
        plan = plan_for(block(tmp_path), host_target())
        no_board = BoardPlan("local", False, _no_board)
        report = recover(store, replace(plan, boards=no_board))
    (task,) = report.tasks
    assert (task.near, task.trials, task.served) == (None, 0, None)
    assert [miss.reason for miss in report.answer.misses] == [MissReason.NEVER_TUNED]


def test_a_cold_task_next_to_a_known_one_starts_warm(
    block: MakeModel, store: Store, tmp_path: Path
) -> None:
    plan = plan_for(block(tmp_path, batch=2), host_target(), trials=4)
    tune(plan, store, _ignore)
    (key,) = plan.model.keys
    first, *_ = store.records(key)
    assert first.candidate.source is Source.WARM_START
    assert "record" in first.candidate.origin


def _no_board() -> Any:
    raise AssertionError("no board is needed")


@pytest.mark.parametrize(
    ("trace", "why"),
    [
        pytest.param(HOSTILE, "pragma_import_llvm", id="a refused trace"),
        pytest.param("[[], []]", "which was measured", id="a trace of another module"),
        pytest.param(TRACE_OF_OTHERS, "does not replay", id="a trace that does not fit"),
    ],
)
def test_what_no_build_can_use_is_withdrawn_and_made_anew(
    trace: str,
    why: str,
    block: MakeModel,
    store: Store,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Somebody changed every trace of the task in the database."""
    with sqlite3.connect(tmp_path / "tunebook.db") as connection:
        connection.execute("UPDATE records SET trace = ?", (trace,))
    plan = plan_for(block(tmp_path), host_target(), trials=TUNED_TRIALS + 4)
    tune(plan, store, _ignore)
    served = store.lookup(plan.model.keys).hits[plan.model.keys[0]]
    assert served.trace != trace
    assert why in caplog.text
