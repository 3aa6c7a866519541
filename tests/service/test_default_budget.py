"""How many trials a tuning run gets that says nothing of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from tunebook.cache.store import Store
from tunebook.cache.targets import Target
from tunebook.service.tune_command import with_a_budget
from tunebook.tuner.llvm_targets import host_target
from tunebook.workers.tuning import BoardRequest, BudgetRequest, TuningPlan, plan_tuning

NOTHING_SAID = BudgetRequest()


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> TuningPlan:
    path = tmp_path_factory.mktemp("models") / "net.onnx"
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    values = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 8]) for name in "xy"
    ]
    graph = onnx.helper.make_graph([node], "net", values[:1], values[1:])
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    target: Target = host_target()
    return plan_tuning(path, target, shapes={}, budget=NOTHING_SAID, board=BoardRequest())


@pytest.fixture
def store(tmp_path: Path):
    with Store.open(str(tmp_path / "tunebook.db")) as store:
        yield store


def test_a_model_that_was_never_tuned_gets_a_thousand(plan: TuningPlan, store: Store) -> None:
    assert with_a_budget(plan, store).budget == BudgetRequest(trials=1000)


def test_every_task_gets_a_trial_however_many_there_are(plan: TuningPlan, store: Store) -> None:
    large = replace(plan, model=replace(plan.model, tasks=plan.model.tasks * 1200))
    assert with_a_budget(large, store).budget.trials == 1200


def test_a_model_that_was_tuned_keeps_its_budget(plan: TuningPlan, store: Store) -> None:
    model = store.save_model(plan.model)
    store.submit_job(model, "local", trials=3000, more=None)
    unchanged = with_a_budget(plan, store)
    assert unchanged.budget == NOTHING_SAID
    again = store.submit_job(
        model, "local", trials=unchanged.budget.trials, more=unchanged.budget.more
    )
    assert store.budget(again).limit == 3000


@pytest.mark.parametrize("said", [BudgetRequest(trials=12), BudgetRequest(more=5)])
def test_what_is_said_holds(said: BudgetRequest, plan: TuningPlan, store: Store) -> None:
    assert with_a_budget(replace(plan, budget=said), store).budget == said
