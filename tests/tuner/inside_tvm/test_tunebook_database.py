"""Tunebook's schedules inside TVM's own passes."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tvm
from database_samples import UNSCHEDULED, Fill, Read, alter, apply, functions, run, scheduled
from tvm import relax
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.relax_integration import compile_relax

from tunebook.cache.misses import MissReason, ScheduleMissError
from tunebook.cache.records import Candidate, Model
from tunebook.cache.store import Store
from tunebook.cache.targets import Target
from tunebook.tuner import TunebookDatabase
from tunebook.tuner.importing.frontend import read_model
from tunebook.tuner.splitting.prepare import PreparedModule, prepare
from tunebook.tuner.splitting.split import split_model


def test_tvm_compiles_a_model_with_schedules_of_the_store(
    read: Read, host: Target, store: Store, sample: Callable[..., Candidate], fill: Fill
) -> None:
    imported = read("convolution")
    model = split_model(prepare(imported, host))
    fill(store, model, [sample(task.workload, host) for task in model.tasks])
    database = TunebookDatabase(store, host)
    executable = compile_relax(database, imported.module, database.target, params=None)
    assert database.misses == ()
    untuned = tvm.compile(imported.module, database.target)
    image = np.random.default_rng(0).standard_normal((1, 4, 12, 12)).astype("float32")
    np.testing.assert_allclose(run(executable, image), run(untuned, image), rtol=1e-4, atol=1e-5)


def test_every_function_gets_its_schedule(
    network: PreparedModule, tuned: Store, host: Target
) -> None:
    result = apply(TunebookDatabase(tuned, host), network.module)
    assert scheduled(result) == functions(network.module)


PASSES = relax.transform


@pytest.mark.parametrize(
    "pipeline",
    [
        # It takes a database without records for none.
        lambda target: relax.get_pipeline("zero"),
        lambda target: tvm.transform.Sequential(
            [
                PASSES.DecomposeOpsForInference(),
                PASSES.CanonicalizeBindings(),
                relax.get_pipeline("zero"),
            ]
        ),
        # It applies its database twice.
        lambda target: relax.get_pipeline(
            "static_shape_tuning", total_trials=0, target=target, work_dir="unused"
        ),
    ],
    ids=["zero", "decomposed and zero", "static_shape_tuning"],
)
def test_pipelines_that_fuse_an_imported_module_once_ask_for_exactly_its_tasks(
    pipeline: Callable[[Any], Any],
    network: PreparedModule,
    model: Model,
    tuned: Store,
    host: Target,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    database = TunebookDatabase(tuned, host, model=model)
    with database.target, database:
        result = pipeline(database.target)(network.model.module)
    assert scheduled(result) == functions(result)
    assert database.misses == ()


def test_the_innermost_database_is_asked_and_each_tells_its_own(
    network: PreparedModule, tuned: Store, host: Target, tmp_path: Path
) -> None:
    with Store.open(str(tmp_path / "empty.db")) as empty:
        outer, inner = TunebookDatabase(tuned, host), TunebookDatabase(empty, host)
        with outer.target, outer:
            with pytest.raises(ScheduleMissError), inner:
                relax.transform.MetaScheduleApplyDatabase()(network.module)
            result = relax.transform.MetaScheduleApplyDatabase()(network.module)
        assert (len(outer.misses), len(inner.misses)) == (0, 3)
        assert scheduled(result) == functions(network.module)


def test_one_that_is_entered_twice_tells_on_leaving_for_good(
    network: PreparedModule, store: Store, host: Target
) -> None:
    database = TunebookDatabase(store, host)
    left = []
    with pytest.raises(ScheduleMissError), database.target, database:
        apply(database, network.module)
        left.append("the inner one")
        assert ms.Database.current() == database
    assert left == ["the inner one"]
    assert ms.Database.current() is None


def test_two_uses_one_after_another_start_afresh(
    network: PreparedModule, model: Model, store: Store, host: Target, fill: Fill
) -> None:
    database = TunebookDatabase(store, host)
    with pytest.raises(ScheduleMissError):
        apply(database, network.module)
    fill(store, model, [Candidate(UNSCHEDULED, task.workload.key.hash) for task in model.tasks])
    apply(database, network.module)
    assert database.misses == ()


def test_it_holds_for_the_thread_that_entered_it(tuned: Store, network: Any, host: Target) -> None:
    database = TunebookDatabase(tuned, host)
    seen = []
    with database.target, database:
        relax.transform.MetaScheduleApplyDatabase()(network.module)
        other = threading.Thread(target=lambda: seen.append(ms.Database.current()))
        other.start()
        other.join()
    assert seen == [None]


def test_schedules_of_emulated_boards_are_served_where_they_are_accepted(
    network: PreparedModule, tuned: Store, host: Target, tmp_path: Path
) -> None:
    for table in ("records", "schedules"):
        alter(tmp_path, table, "emulated", 1)
    apply(TunebookDatabase(tuned, host, accept_emulated=True), network.module)
    with pytest.raises(ScheduleMissError) as refused:
        apply(TunebookDatabase(tuned, host), network.module)
    assert {miss.reason for miss in refused.value.misses} == {MissReason.EMULATED_ONLY}


def test_what_it_does_not_offer_it_says(store: Store, host: Target, network: Any) -> None:
    database = TunebookDatabase(store, host)
    with pytest.raises(Exception, match="answers look-ups only"):
        database.commit_workload(network.module)


def test_naming_it_loads_tvm_and_importing_the_package_does_not() -> None:
    program = (
        "import sys, tunebook.tuner; assert 'tvm' not in sys.modules;"
        "tunebook.tuner.TunebookDatabase; assert 'tvm' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_example_of_the_documentation_runs(
    onnx_models: ModuleType,
    host: Target,
    sample: Callable[..., Candidate],
    fill: Fill,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = (Path(__file__).parents[3] / "docs" / "inside-tvm.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    path = onnx_models.save(tmp_path / "net.onnx", onnx_models.convolution())
    model = split_model(prepare(read_model(path, None), host))
    with Store.open(str(tmp_path / "tunebook.db")) as store:
        fill(store, model, [sample(task.workload, host) for task in model.tasks])
    monkeypatch.chdir(tmp_path)
    exec(example, {})
    library = tvm.runtime.load_module(str(tmp_path / "net.so"))
    image = np.ones((1, 4, 12, 12), "float32")
    assert run(library, image).shape == (1, 8, 10, 10)
