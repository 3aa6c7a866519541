"""Calls that are legalized once for many: no two are taken for alike that are not."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnxruntime
import pytest
import tvm
from tvm import relax
from tvm.s_tir.meta_schedule.relax_integration import extract_tasks

from tunebook.cache.store import Store
from tunebook.cache.targets import Target
from tunebook.tuner.builds.compile_model import compile_model
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.importing.frontend import read_model
from tunebook.tuner.llvm_targets import tvm_target
from tunebook.tuner.splitting.legalized_calls import LegalizedCalls
from tunebook.tuner.splitting.prepare import prepare
from tunebook.tuner.splitting.split import split


def test_operators_that_are_nearly_alike_come_out_as_onnxruntime_says(
    onnx_models: ModuleType, host: Target, store: Store, tmp_path: Path
) -> None:
    path = onnx_models.save(tmp_path / "alike.onnx", onnx_models.alike())
    built = compile_model(path, host, cache=store, output=tmp_path / "built", on_miss="warn")
    generator = np.random.default_rng(0)
    inputs: dict[str, Any] = {
        name: generator.standard_normal((4, 6)).astype("float32") for name in ("x", "y")
    }
    inputs["mask"] = generator.integers(0, 2, (4, 6)).astype(bool)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for ours, theirs in zip(built.run(inputs), session.run(None, inputs), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_tasks_and_weights_are_those_of_tvm_which_legalizes_each_call(
    onnx_models: ModuleType, host: Target, tmp_path: Path
) -> None:
    model = read_model(onnx_models.save(tmp_path / "alike.onnx", onnx_models.alike()))
    target = tvm_target(host)
    with target:
        stock = relax.get_pipeline("zero")(model.module)
    expected = {
        module_hash(one.dispatched[0]): int(one.weight) for one in extract_tasks(stock, target)
    }
    tasks = split(prepare(model, host))
    assert {task.workload.key.hash: task.weight for task in tasks} == expected


X, Y, WIDE = (
    relax.Var(name, relax.TensorType(shape, "float32"))
    for name, shape in (("x", (2, 3)), ("y", (2, 3)), ("wide", (2, 9)))
)


@pytest.fixture
def legalized() -> LegalizedCalls:
    """Knows the sum of two tensors of 2x3."""
    calls = LegalizedCalls()
    made = relax.call_tir(tvm.ir.GlobalVar("add"), [X, Y], X.ty)
    calls.keep("relax.add", "{}", [X, Y], made)
    return calls


def test_a_call_like_an_earlier_one_calls_the_same_function_with_its_own_arguments(
    legalized: LegalizedCalls,
) -> None:
    found = legalized.find("relax.add", "{}", [Y, X])
    assert found is not None
    assert found.args[0].name_hint == "add"
    assert [str(one.name) for one in found.args[1].fields] == ["y", "x"]


@pytest.mark.parametrize(
    ("operator", "attributes", "arguments"),
    [
        ("relax.subtract", "{}", [X, Y]),
        ("relax.add", '{"axis": 1}', [X, Y]),
        ("relax.add", "{}", [X, WIDE]),
        ("relax.add", "{}", [X, X]),
        ("relax.add", "{}", [X, relax.const(1.0, "float32")]),
    ],
    ids=["operator", "attributes", "type", "one tensor twice", "a number"],
)
def test_a_call_that_differs_is_another(
    operator: str, attributes: str, arguments: list[Any], legalized: LegalizedCalls
) -> None:
    assert legalized.find(operator, attributes, arguments) is None
