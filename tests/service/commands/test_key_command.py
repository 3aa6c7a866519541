"""`tunebook key`: what it prints of a model, and of two keys."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tunebook.cache.errors import ExitCode
from tunebook.cache.store import Store
from tunebook.service.cli import run
from tunebook.tuner.importing.frontend import read_model
from tunebook.tuner.llvm_targets import resolve_target
from tunebook.tuner.splitting.choices import Choices
from tunebook.tuner.splitting.prepare import prepare
from tunebook.tuner.splitting.split import split_model

A76 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -mattr=+dotprod -num-cores=4"
KEY = f"conv2d+relu | f32[1,4,8,8] f32[8,4,3,3] -> f32[1,8,6,6] | {A76} | tvm-0.27.0+llvm-22 | 01"


@pytest.fixture
def model(tmp_path: Path, onnx_models: ModuleType) -> Path:
    return Path(onnx_models.save(tmp_path / "model.onnx", onnx_models.convolution_after_others()))


@pytest.fixture
def database(tmp_path: Path) -> str:
    path = str(tmp_path / "tunebook.db")
    Store.open(path).close()
    return path


def test_a_models_keys_are_printed_one_a_line(
    model: Path, database: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["key", str(model), "--target", A76, "--db", database]) == ExitCode.OK
    split = split_model(prepare(read_model(model), resolve_target(A76)))
    assert capfd.readouterr().out.splitlines() == [str(key) for key in split.keys]


def test_the_document_has_each_keys_parts_its_weight_and_its_likeness(
    model: Path, database: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["key", str(model), "--target", A76, "--db", database, "--json"]) == ExitCode.OK
    document = json.loads(capfd.readouterr().out)
    split = split_model(prepare(read_model(model), resolve_target(A76)))
    assert document["model_digest"] == split.digest
    assert document["choices"] == ""
    assert document["target_features"] == split.target_features
    for told, task in zip(document["keys"], split.tasks, strict=True):
        parts = [told[part] for part in ("op", "buffers", "target", "compiler", "workload_hash")]
        assert told["key"] == " | ".join(parts) == str(task.workload.key.on(split.target))
        assert told["weight"] == task.weight
        assert told["likeness"] == vars(task.workload.likeness)


def test_keys_are_those_of_the_layout_that_the_model_was_tuned_with(
    model: Path, database: str, capfd: pytest.CaptureFixture[str]
) -> None:
    other = split_model(prepare(read_model(model), resolve_target(A76), Choices("NHWC")))
    with Store.open(database) as store:
        store.save_model(other)
    printed = {}
    for layout in ([], ["--layout", "nhwc"], ["--layout", "NCHW"]):
        assert run(["key", str(model), "--target", A76, "--db", database, *layout]) == ExitCode.OK
        printed[" ".join(layout)] = capfd.readouterr().out
    assert printed[""] == printed["--layout nhwc"]
    assert printed[""].splitlines() == [str(key) for key in other.keys]
    assert printed[""] != printed["--layout NCHW"]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (("conv2d+relu", "conv2d+add+relu"), "op: conv2d+relu | conv2d+add+relu\n"),
        ((" f32[8,4,3,3]", " f32[8,4,5,3]"), "buffers[1][2]: 3 | 5\n"),
        (("-num-cores=4", "-num-cores=2"), "target.num-cores: 4 | 2\n"),
        (("tvm-0.27.0", "tvm-0.26.0"), "compiler: tvm-0.27.0+llvm-22 | tvm-0.26.0+llvm-22\n"),
        (("| 01", "| 02"), "workload_hash: 01 | 02\n"),
    ],
    ids=lambda value: " to ".join(value) if isinstance(value, tuple) else "",
)
def test_two_keys_are_compared_field_by_field(
    changed: tuple[str, str], told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["key", "--diff", KEY, KEY.replace(*changed)]) == ExitCode.MISS
    assert capfd.readouterr().out == told


def test_the_difference_is_told_to_machines_too(capfd: pytest.CaptureFixture[str]) -> None:
    other = KEY.replace(" -mattr=+dotprod", "").replace("[1,4,8,8]", "[1,4,9,8]")
    assert run(["key", "--diff", KEY, other, "--json"]) == ExitCode.MISS
    document = json.loads(capfd.readouterr().out)
    assert document["equal"] is False
    assert [one["field"] for one in document["differences"]] == ["target.mattr", "buffers[0][2]"]
    assert document["differences"][1]["wanted"] == 8
    assert document["differences"][1]["nearest"] == 9


def test_equal_keys_have_no_difference(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["key", "--diff", KEY, KEY]) == ExitCode.OK
    assert capfd.readouterr().out == "The keys are the same.\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--diff", KEY, "conv2d | f32[1] -> f32[1]"],
        ["--diff", "", KEY],
        ["--diff", KEY],
        ["--diff", KEY, KEY, "model.onnx"],
        ["--diff", KEY, KEY, "--target", "host"],
        ["model.onnx"],
        ["--target", "host"],
        [],
    ],
    ids=[
        "not five parts",
        "no text",
        "one key only",
        "keys and a model",
        "keys and a target",
        "no target",
        "no model",
        "nothing",
    ],
)
def test_a_wrong_call_is_one_line(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["key", *arguments]) == ExitCode.USAGE
    err = capfd.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("text", ["x" * 100_000, KEY.replace("conv2d", "x" * 100_000)])
def test_a_text_without_end_is_not_told_whole(text: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["key", "--diff", text, KEY]) in (ExitCode.USAGE, ExitCode.MISS)
    out, err = capfd.readouterr()
    assert "xxx..." in out + err
    assert len(out + err) < 1000


def test_comparing_keys_loads_no_tvm() -> None:
    program = (
        "import sys\n"
        "from tunebook.service.cli import run\n"
        f"assert run(['key', '--diff', {KEY!r}, {KEY!r}]) == 0\n"
        "print(sorted({'tvm', 'onnx', 'xgboost'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
