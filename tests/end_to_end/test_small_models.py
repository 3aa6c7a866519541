"""Small models with what is special about them, each tuned, built and compared on this machine."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tunebook.cache.records import ErrorClass, Measurement
from tunebook.cache.store import Store
from tunebook.tuner.builds.compile_model import compile_model
from tunebook.tuner.importing.frontend import read_model
from tunebook.tuner.llvm_targets import resolve_target
from tunebook.tuner.splitting.program import Program
from tunebook.tuner.trials.measuring import Measurer
from tunebook.tuner.trials.trials import BuiltLibrary
from tunebook.workers.commands.tuning import (
    BoardRequest,
    BudgetRequest,
    TuneReport,
    plan_tuning,
    tune,
)

pytestmark = pytest.mark.slow

_RANDOM = np.random.default_rng(7)
_HALF_SHAPES = {"x": (1, 3, 8, 8)}


def _tune(
    path: Path, store: Store, trials: int, shapes: dict[str, tuple[int, ...]] | None = None
) -> TuneReport:
    plan = plan_tuning(
        path,
        resolve_target("host"),
        shapes=shapes or {},
        budget=BudgetRequest(trials=trials),
        board=BoardRequest(),
    )
    return tune(plan, store, lambda progress: None)


@pytest.mark.parametrize(
    ("name", "shapes", "inputs", "tolerance"),
    [
        ("quantised", {}, {"x": _RANDOM.standard_normal((1, 3, 8, 8)).astype("float32")}, 1e-4),
        (
            "half_precision",
            _HALF_SHAPES,
            {"x": _RANDOM.standard_normal((1, 3, 8, 8)).astype("float16")},
            2e-2,
        ),
        ("gather", {}, {"rows": np.array([0, 99, 3, 50, 7])}, 1e-6),
        ("integer_dense", {}, {"x": _RANDOM.integers(-128, 128, (16, 64)).astype("int8")}, 0),
    ],
    ids=["int8 QDQ", "fp16", "gather on int64 indices", "int8 dense layer"],
)
def test_goes_all_the_way(
    name: str,
    shapes: dict[str, tuple[int, ...]],
    inputs: dict[str, Any],
    tolerance: float,
    tmp_path: Path,
    onnx_models: ModuleType,
    onnxruntime_says: Callable[..., list[Any]],
) -> None:
    path = onnx_models.save(tmp_path / f"{name}.onnx", getattr(onnx_models, name)())
    with Store.open(str(tmp_path / "tunebook.db")) as store:
        report = _tune(path, store, 16, shapes)
        assert not any(task.failures for task in report.tasks)
        compiled = compile_model(
            read_model(path, shapes), resolve_target("host"), cache=store, output=tmp_path / name
        )
    assert compiled.hits == len(report.tasks)
    for ours, theirs in zip(compiled.run(inputs), onnxruntime_says(path, inputs), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@dataclass(frozen=True)
class _Trial:
    """A call that measured a scheduled module."""

    workload: str
    module: str


@pytest.fixture
def trials_measured(monkeypatch: pytest.MonkeyPatch) -> list[_Trial]:
    """Every trial that a board is asked for, in order; untuned programs are no trials."""
    measured: list[_Trial] = []
    measure = Measurer.measure

    def remember(
        self: Measurer, library: BuiltLibrary, program: Program, **best: float | None
    ) -> Measurement:
        if best:
            measured.append(_Trial(program.key.hash, library.module_hash))
        return measure(self, library, program, **best)

    monkeypatch.setattr(Measurer, "measure", remember)
    return measured


def test_the_same_layer_in_two_models_is_measured_once(
    tmp_path: Path, onnx_models: ModuleType, trials_measured: list[_Trial]
) -> None:
    first = onnx_models.save(tmp_path / "first.onnx", onnx_models.convolution_after_others())
    second = onnx_models.save(tmp_path / "second.onnx", onnx_models.convolution())
    database = tmp_path / "tunebook.db"
    with Store.open(str(database)) as store:
        one = _tune(first, store, 12)
        # All trials of the second run go to the layer, its only task.
        other = _tune(second, store, 8)
        (layer,) = [task.key for task in other.tasks]
        records = store.records(layer)
    (before,) = [task.trials for task in one.tasks if task.key == layer]
    assert before > 0
    assert len(records) == before + 8
    of_layer = [trial.module for trial in trials_measured if trial.workload == layer.workload_hash]
    built = [r for r in records if r.measurement.error is not ErrorClass.BUILD]
    assert sorted(of_layer) == sorted(record.candidate.module_hash for record in built)
    assert len(set(trials_measured)) == len(trials_measured)
    assert _repeats(database) == 0


def _repeats(database: Path) -> int:
    with closing(sqlite3.connect(database)) as connection:
        return int(connection.execute("SELECT count(*) FROM repeats").fetchone()[0])
