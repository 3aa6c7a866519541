"""How many trials a tuning run gets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from tunebook.cache.errors import BudgetError
from tunebook.cache.store import Store
from tunebook.tuner.llvm_targets import host_target
from tunebook.workers.commands.tuning import (
    BoardRequest,
    BudgetRequest,
    TuningPlan,
    plan_tuning,
    submit_tuning,
)

NOTHING_SAID = BudgetRequest()


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory, onnx_models: ModuleType) -> Path:
    folder = tmp_path_factory.mktemp("models")
    path: Path = onnx_models.save(folder / "net.onnx", onnx_models.convolution_after_others())
    return path


@pytest.fixture(scope="module")
def plan(model_file: Path) -> TuningPlan:
    return plan_tuning(
        model_file, host_target(), shapes={}, budget=NOTHING_SAID, board=BoardRequest()
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(str(tmp_path / "tunebook.db")) as store:
        yield store


def _limit(plan: TuningPlan, store: Store, budget: BudgetRequest) -> int:
    return store.budget(submit_tuning(replace(plan, budget=budget), store)).limit


def test_a_new_model_gets_a_thousand(plan: TuningPlan, store: Store) -> None:
    assert _limit(plan, store, NOTHING_SAID) == 1000


def test_a_model_that_was_only_stored_is_new(plan: TuningPlan, store: Store) -> None:
    """A run may be killed between the two."""
    store.save_model(plan.model)
    assert _limit(plan, store, NOTHING_SAID) == 1000


def test_a_model_that_has_a_budget_keeps_it(plan: TuningPlan, store: Store) -> None:
    assert _limit(plan, store, BudgetRequest(trials=3000)) == 3000
    assert _limit(plan, store, NOTHING_SAID) == 3000


@pytest.mark.parametrize(
    ("said", "limit"), [(BudgetRequest(trials=12), 12), (BudgetRequest(more=5), 5)]
)
def test_what_is_said_holds(
    said: BudgetRequest, limit: int, plan: TuningPlan, store: Store
) -> None:
    assert _limit(plan, store, said) == limit


def test_more_trials_never_lower_a_budget_that_is_not_spent(plan: TuningPlan, store: Store) -> None:
    assert _limit(plan, store, BudgetRequest(trials=1000)) == 1000
    assert _limit(plan, store, BudgetRequest(more=3)) == 1000


def test_more_trials_that_are_fewer_than_tasks_are_refused(plan: TuningPlan, store: Store) -> None:
    with pytest.raises(BudgetError, match="so give --more 3 or more"):
        submit_tuning(replace(plan, budget=BudgetRequest(more=2)), store)


def test_fewer_trials_than_tasks_are_refused_with_how_many_it_takes(model_file: Path) -> None:
    budget = BudgetRequest(trials=2)
    with pytest.raises(BudgetError, match="has 3 tasks, so give --trials 3"):
        plan_tuning(model_file, host_target(), shapes={}, budget=budget, board=BoardRequest())
