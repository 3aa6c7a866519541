"""Building models from the cache, and refusing to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from near_programs import A76

from tunebook.cache.errors import (
    ExitCode,
    ModelError,
    TunebookError,
    UsageError,
)
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.misses import ScheduleMissError
from tunebook.cache.records import Candidate
from tunebook.cache.store import Store
from tunebook.cache.targets import Target
from tunebook.tuner.builds.compile_model import BuildError, compile_model
from tunebook.tuner.builds.compiled_model import CompiledModel
from tunebook.tuner.builds.manifest import Manifest
from tunebook.tuner.compiler import compiler_text
from tunebook.tuner.importing.imported_model import ImportedModel
from tunebook.tuner.splitting.prepare import PreparedModule, prepare
from tunebook.tuner.splitting.split import split, split_model

Read = Callable[..., ImportedModel]
Prepared = Callable[[str], PreparedModule]
Sample = Callable[..., Candidate]
AssertAgrees = Callable[..., None]
# The ELF header's machine field.
ELF_AARCH64 = 183


def onnxruntime_says(path: Path, inputs: dict[str, Any]) -> list[Any]:
    # As the file says: fusing quantised operators would change how they round.
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(str(path), options, providers=providers)
    return list(session.run(None, inputs))


@pytest.fixture
def assert_agrees(
    prepared: Prepared,
    inputs_for: Callable[[ImportedModel], dict[str, Any]],
    published: dict[str, Any],
) -> AssertAgrees:
    """Compares every output of a build of a published model with what onnxruntime says."""

    def check(built: CompiledModel, name: str, *, rtol: float, atol: float) -> None:
        inputs = inputs_for(prepared(name).model)
        expected = onnxruntime_says(published[name].path, inputs)
        for ours, theirs in zip(built.run(inputs), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)

    return check


@pytest.mark.parametrize(
    "name",
    [
        "rnet",
        "onet",
        "pnet",
        "magika",
        *(pytest.param(f"ppocr_{part}", marks=pytest.mark.slow) for part in ("cls", "det", "rec")),
    ],
)
def test_what_is_tuned_is_what_is_looked_up_and_what_the_build_asks_for(
    name: str,
    prepared: Prepared,
    host: Target,
    tuned_for_all: Any,
    published: dict[str, Any],
    assert_agrees: AssertAgrees,
    tmp_path: Path,
) -> None:
    tuned = {task.workload.key.on(str(host)) for task in split(prepared(name))}
    # Raises where TVM asks for a workload that is no task, or leaves a task unasked.
    built = compile_model(
        prepared(name).model, host, cache=tuned_for_all, output=tmp_path / "built"
    )
    assert set(tuned_for_all.asked) == tuned
    assert {ScheduleKey.parse(task.key) for task in built.manifest.tasks} == tuned
    assert built.hits == len(tuned) == published[name].tasks
    assert_agrees(built, name, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "shapes", "tolerance"),
    [
        ("quantised", None, 1e-4),
        ("half_precision", {"x": (2, 3, 8, 8)}, 2e-2),
        ("gather", None, 0.0),
        ("integer_dense", None, 0.0),
    ],
)
def test_our_own_models_agree_with_onnxruntime(
    name: str,
    shapes: dict[str, tuple[int, ...]] | None,
    tolerance: float,
    read: Read,
    host: Target,
    tuned_for_all: Any,
    inputs_for: Callable[[ImportedModel], dict[str, Any]],
    tmp_path: Path,
) -> None:
    model = read(name, shapes)
    built = compile_model(model, host, cache=tuned_for_all, output=tmp_path / "built")
    inputs = inputs_for(model)
    (expected,) = onnxruntime_says(tmp_path / f"{name}.onnx", inputs)
    (result,) = built.run(inputs)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(
        result.astype("float64"), expected.astype("float64"), rtol=tolerance, atol=tolerance
    )


def test_a_model_built_with_real_schedules_agrees_with_onnxruntime(
    prepared: Prepared,
    host: Target,
    store: Store,
    sample: Sample,
    fill: Callable[..., None],
    assert_agrees: AssertAgrees,
    tmp_path: Path,
) -> None:
    model = split_model(prepared("rnet"))
    candidates = [sample(task.workload, host) for task in model.tasks]
    assert all("GetSBlock" in candidate.trace for candidate in candidates)
    fill(store, model, candidates)
    built = compile_model(prepared("rnet").model, host, cache=store, output=tmp_path / "rnet")
    assert built.hits == len(model.tasks)
    assert_agrees(built, "rnet", rtol=1e-4, atol=1e-5)


def test_any_miss_refuses_the_build_before_anything_is_compiled(
    prepared: Prepared, host: Target, store: Store, sample: Sample, fill: Any, tmp_path: Path
) -> None:
    model = split_model(prepared("rnet"))
    tuned = replace(model, tasks=model.tasks[:3])
    fill(store, tuned, [sample(task.workload, host) for task in tuned.tasks])
    with pytest.raises(ScheduleMissError) as refused:
        compile_model(prepared("rnet").model, host, cache=store, output=tmp_path / "rnet")
    missed = [miss.key.workload for miss in refused.value.misses]
    assert missed == [task.workload.key for task in model.tasks[3:]]
    assert refused.value.exit_code is ExitCode.MISS
    assert list(tmp_path.glob("*rnet*")) == []


def test_a_build_may_run_untuned_code_for_what_missed_and_says_which(
    prepared: Prepared,
    host: Target,
    store: Store,
    sample: Sample,
    fill: Any,
    assert_agrees: AssertAgrees,
    tmp_path: Path,
) -> None:
    model = split_model(prepared("rnet"))
    tuned = replace(model, tasks=model.tasks[:3])
    fill(store, tuned, [sample(task.workload, host) for task in tuned.tasks])
    built = compile_model(
        prepared("rnet").model, host, cache=store, output=tmp_path / "rnet", on_miss="warn"
    )
    assert built.hits == 3
    assert {str(miss.key) for miss in built.misses} == {
        task.key for task in built.manifest.tasks if task.record_id is None
    }
    assert_agrees(built, "rnet", rtol=1e-4, atol=1e-5)


def test_the_manifest_says_where_the_library_came_from(
    tuned_convolution: ImportedModel, host: Target, store: Store, tmp_path: Path
) -> None:
    folder = tmp_path / "v1.2"
    folder.mkdir()
    built = compile_model(tuned_convolution, host, cache=store, output=folder / "net")
    assert built.library == folder / "net.so"
    assert built.manifest_path == folder / "net.json"
    manifest = Manifest.read(built.manifest_path)
    assert manifest == built.manifest
    assert manifest.model_digest == tuned_convolution.digest
    assert manifest.shapes == "x=1,4,12,12"
    assert manifest.target == str(host)
    assert manifest.compiler == compiler_text()
    assert (manifest.tvm, manifest.tvm_ffi) == ("0.27.0.post1", "0.1.14.post1")
    assert manifest.compiler.endswith(f"llvm-{manifest.llvm}")
    assert manifest.threads == host.num_cores
    (task,) = manifest.tasks
    key = split(prepare(tuned_convolution, host))[0].workload.key.on(str(host))
    (record,) = store.records(key)
    assert (task.key, task.weight) == (str(key), 1)
    assert (task.record_id, task.seconds, task.emulated) == (record.id, 1e-3, False)


def test_a_model_is_built_for_another_architecture(
    prepared: Prepared, tuned_for_all: Any, tmp_path: Path
) -> None:
    built = compile_model(
        prepared("rnet").model, A76, cache=tuned_for_all, output=tmp_path / "rnet"
    )
    header = built.library.read_bytes()[:20]
    assert int.from_bytes(header[18:20], "little") == ELF_AARCH64
    with pytest.raises(ModelError, match="does not run"):
        built.run({"input_2": np.zeros((1, 24, 24, 3), "float32")})


def test_a_model_is_built_from_its_path(
    published: dict[str, Any], host: Target, tuned_for_all: Any, tmp_path: Path
) -> None:
    rnet = published["rnet"]
    built = compile_model(
        rnet.path, str(host), cache=tuned_for_all, output=tmp_path / "rnet", shapes=rnet.shapes
    )
    assert built.manifest.model == "rnet.onnx"


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({}, "inputs are x"),
        ({"y": np.zeros((1, 4, 12, 12), "float32")}, "inputs are x; given are y"),
        ({"x": np.zeros((1, 4, 12, 13), "float32")}, r"float32\[1, 4, 12, 12\]"),
        ({"x": np.zeros((1, 4, 12, 12), "float64")}, "not float64"),
    ],
)
def test_inputs_that_are_not_the_models_are_refused(
    inputs: dict[str, Any],
    said: str,
    read: Read,
    host: Target,
    tuned_for_all: Any,
    tmp_path: Path,
) -> None:
    built = compile_model(read("convolution"), host, cache=tuned_for_all, output=tmp_path / "built")
    with pytest.raises(ModelError, match=said):
        built.run(inputs)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"on_miss": "ignore"}, "on_miss"),
        ({"output": Path("no/such/folder/built")}, "does not exist"),
        ({"shapes": {"x": (1, 4, 12, 12)}}, "when it is read"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    options: dict[str, Any],
    said: str,
    read: Read,
    host: Target,
    tuned_for_all: Any,
    tmp_path: Path,
) -> None:
    arguments = {"cache": tuned_for_all, "output": tmp_path / "built", **options}
    with pytest.raises(UsageError, match=said):
        compile_model(read("convolution"), host, **arguments)
    assert tuned_for_all.asked == []


def test_an_output_that_is_a_folder_is_refused_before_anything_is_looked_up(
    read: Read, host: Target, tuned_for_all: Any, tmp_path: Path
) -> None:
    (tmp_path / "built.json").mkdir()
    with pytest.raises(UsageError, match=r"built\.json is a directory"):
        compile_model(read("convolution"), host, cache=tuned_for_all, output=tmp_path / "built")
    assert tuned_for_all.asked == []


def test_a_folder_that_takes_no_files_is_one_line(
    read: Read, host: Target, tuned_for_all: Any
) -> None:
    """Even root cannot write to /proc, which says otherwise when it is asked."""
    with pytest.raises((BuildError, UsageError)) as refused:
        compile_model(read("convolution"), host, cache=tuned_for_all, output="/proc/built")
    assert "/proc" in str(refused.value)
    assert "can" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_no_manifest_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text("{}")
    with pytest.raises(TunebookError, match="not a manifest") as refused:
        Manifest.read(path)
    assert "\n" not in str(refused.value)
