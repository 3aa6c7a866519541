"""Every reason for a miss, as the command line tells it of a model that changed a little."""

from __future__ import annotations

import json
import shlex
import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tunebook.cache.errors import ExitCode
from tunebook.cache.records import ErrorClass
from tunebook.cache.store import Store
from tunebook.service.cli import run
from tunebook.tuner.compiler import compiler_text
from tunebook.tuner.llvm_targets import host_target, resolve_target

pytestmark = pytest.mark.slow

OP = "conv2d+relu+multiply"
HOST = host_target()
# A feature that every x86-64 or AArch64 processor has, so that naming it changes nothing.
GIVEN_FEATURE = "+sse2" if HOST.architecture == "x86_64" else "+neon"
SPELT_OUT = resolve_target(f"{HOST} -mattr={GIVEN_FEATURE}")
MORE_CORES = host_target(num_cores=HOST.num_cores + 1)


@pytest.fixture(scope="module")
def models(onnx_models: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tuned model and those that differ from it in one thing."""
    folder = tmp_path_factory.mktemp("models")
    for name, change in {
        "tuned": {},
        "retrained": {"scale": 0.25},
        "dilated": {"dilation": 2},
        "batched": {"batch": 2},
        "extended": {"add": True},
        "halved": {"dtype": "float16"},
    }.items():
        onnx_models.save(folder / f"{name}.onnx", onnx_models.scaled_convolution(**change))
    onnx_models.save(folder / "other.onnx", onnx_models.repeated_relu(1))
    return folder


@pytest.fixture(scope="module")
def tuned(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tuned") / "tunebook.db"
    tune = ["tune", str(models / "tuned.onnx"), "--target", str(HOST), "--trials", "4"]
    assert run([*tune, "--db", str(path)]) == ExitCode.OK
    return path


@pytest.fixture
def database(tuned: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "tunebook.db"
    copy.write_bytes(tuned.read_bytes())
    return copy


LookUp = Callable[..., dict[str, Any]]


@pytest.fixture
def only_miss(models: Path, database: Path, capfd: pytest.CaptureFixture[str]) -> LookUp:
    """Looks a model up that must miss its one task; gives the miss."""

    def look_up(model: str, *options: str, target: object = HOST) -> dict[str, Any]:
        given = ["lookup", str(models / f"{model}.onnx"), "--target", str(target), "--json"]
        code = run([*given, "--db", str(database), *options])
        document = json.loads(capfd.readouterr().out)
        assert code == ExitCode.MISS
        assert document["hits"] == []
        (miss,) = document["misses"]
        assert isinstance(miss, dict)
        return miss

    return look_up


def difference(field: str, wanted: object, nearest: object) -> dict[str, object]:
    return {"field": field, "wanted": wanted, "nearest": nearest}


def test_the_tuned_model_hits(models: Path, database: Path) -> None:
    tuned = ["lookup", str(models / "tuned.onnx"), "--target", str(HOST), "--db", str(database)]
    assert run(tuned) == ExitCode.OK


def test_equivalent_target(only_miss: LookUp) -> None:
    miss = only_miss("tuned", target=SPELT_OUT)
    assert miss["reason"] == "equivalent-target"
    assert miss["differences"] == [difference("target.mattr", [GIVEN_FEATURE], [])]
    assert miss["explanation"] == (
        f"{OP} was tuned only under another text for the same features of LLVM: target.mattr: "
        f"wanted {GIVEN_FEATURE}, stored none; or, where that fits the board, use "
        f"--target '{HOST}'"
    )
    assert miss["mending_command"].startswith("tunebook migrate ")


def test_other_compiler(only_miss: LookUp, database: Path) -> None:
    """What another TVM has stored is told by its name: here it is given to what this one stored."""
    _change(database, "UPDATE workloads SET compiler = 'tvm-0.26.0+llvm-21', hash = 'of 0.26'")
    miss = only_miss("tuned")
    assert miss["reason"] == "other-compiler"
    assert miss["explanation"] == (
        f"{OP} was tuned only by another compiler: compiler: wanted {compiler_text()}, "
        "stored tvm-0.26.0+llvm-21"
    )
    assert miss["mending_command"].startswith("tunebook migrate ")


def test_other_constants(only_miss: LookUp) -> None:
    miss = only_miss("retrained")
    assert miss["reason"] == "other-constants"
    assert miss["explanation"] == (
        f"{OP} was tuned only with other constants: constants[3]: wanted 0.25, stored 0.5"
    )
    assert miss["mending_command"].startswith("tunebook migrate ")


def test_other_attributes(only_miss: LookUp) -> None:
    miss = only_miss("dilated")
    assert miss["reason"] == "other-attributes"
    assert miss["differences"] == [
        difference("attributes.conv2d.dilation", [2, 2], [1, 1]),
        difference("attributes.conv2d.padding", [2, 2, 2, 2], [1, 1, 1, 1]),
    ]
    assert miss["explanation"] == (
        f"{OP} was tuned only with other attributes: attributes.conv2d.dilation: wanted [2, 2], "
        "stored [1, 1]; attributes.conv2d.padding: wanted [2, 2, 2, 2], stored [1, 1, 1, 1]"
    )
    assert miss["mending_command"].startswith("tunebook migrate ")


def test_other_pipeline(models: Path, database: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Another layout needs programs of its own around the convolution."""
    given = ["lookup", str(models / "tuned.onnx"), "--target", str(HOST), "--layout", "NHWC"]
    assert run([*given, "--db", str(database), "--json"]) == ExitCode.MISS
    misses = json.loads(capfd.readouterr().out)["misses"]
    (miss,) = [one for one in misses if one["reason"] == "other-pipeline"]
    assert miss["explanation"].startswith(
        f"{OP} was tuned only in another layout or packing: "
        "attributes.conv2d.data_layout: wanted NHWC, stored NCHW"
    )
    assert "tunebook tune " in miss["mending_command"]


def test_other_fusion(only_miss: LookUp) -> None:
    miss = only_miss("extended")
    assert miss["reason"] == "other-fusion"
    assert miss["explanation"].startswith(
        "conv2d+add+relu+multiply was tuned only fused with other operators: "
    )
    assert difference("op", "conv2d+add+relu+multiply", OP) in miss["differences"]
    assert miss["mending_command"].startswith("tunebook migrate ")


def test_other_target(only_miss: LookUp) -> None:
    miss = only_miss("tuned", target=MORE_CORES)
    assert miss["reason"] == "other-target"
    assert miss["explanation"] == (
        f"{OP} was tuned only for another target: target.num-cores: wanted "
        f"{MORE_CORES.num_cores}, stored {HOST.num_cores}; or, where that fits the board, use "
        f"--target '{HOST}'"
    )
    assert miss["mending_command"].startswith("tunebook migrate ")


def test_other_shape(only_miss: LookUp) -> None:
    miss = only_miss("batched")
    assert miss["reason"] == "other-shape"
    assert difference("buffers[0][0]", 2, 1) in miss["differences"]
    assert miss["explanation"].startswith(
        f"{OP} was tuned only at another shape: buffers[0][0]: wanted 2, stored 1"
    )
    assert miss["mending_command"].startswith("tunebook migrate ")


def test_other_dtype(only_miss: LookUp) -> None:
    miss = only_miss("halved")
    assert miss["reason"] == "other-dtype"
    assert miss["explanation"].startswith(
        f"{OP} was tuned only with other dtypes: buffers[0].dtype: wanted f16, stored f32"
    )
    assert miss["mending_command"].startswith("tunebook migrate ")


def test_only_failures(only_miss: LookUp, database: Path) -> None:
    with Store.open(str(database)) as store:
        for number in range(1, 5):
            store.mark_failed(number, ErrorClass.WRONG_OUTPUT, "another result")
    miss = only_miss("tuned")
    assert miss["reason"] == "only-failures"
    assert miss["explanation"] == "4 trials are stored, and all failed: 4 wrong-output"
    assert "tunebook tune " in miss["mending_command"]


def test_unverified(only_miss: LookUp, database: Path) -> None:
    _change(database, "UPDATE records SET verified = 0", "DELETE FROM schedules")
    miss = only_miss("tuned")
    assert miss["reason"] == "unverified"
    assert miss["explanation"] == (
        "4 successful records are stored, but none was verified on a board"
    )
    assert miss["mending_command"].startswith("tunebook migrate ")


def test_emulated_only(only_miss: LookUp, database: Path) -> None:
    """The emulated board is an AArch64 one: here it is said of records of this machine."""
    _change(database, "UPDATE records SET emulated = 1", "UPDATE schedules SET emulated = 1")
    miss = only_miss("tuned")
    assert miss["reason"] == "emulated-only"
    assert miss["explanation"] == (
        "4 successful records are stored, all of them from an emulated board, whose timings say "
        "nothing about a real one; measure them on a real board, or accept them by name with "
        "--accept-emulated"
    )
    assert miss["mending_command"].startswith("tunebook migrate ")


def test_never_tuned(only_miss: LookUp) -> None:
    miss = only_miss("other")
    assert (miss["reason"], miss["nearest"], miss["differences"]) == ("never-tuned", None, [])
    assert miss["explanation"] == (
        "no relu of this shape or another was ever tuned with this compiler"
    )
    assert "tunebook tune " in miss["mending_command"]


def _change(database: Path, *statements: str) -> None:
    with sqlite3.connect(database) as connection:
        for statement in statements:
            connection.execute(statement)


def test_the_command_that_a_miss_names_mends_it(
    only_miss: LookUp, capfd: pytest.CaptureFixture[str]
) -> None:
    mend = shlex.split(only_miss("retrained")["mending_command"])[1:]
    assert run(mend) == ExitCode.OK
    told = capfd.readouterr().out
    assert "other-constants" in told
    assert "1 of 1 missing schedules were made with 1 trial in" in told
    assert run([*mend, "--json"]) == ExitCode.OK
    document = json.loads(capfd.readouterr().out)
    assert (document["hits"], document["tasks"], document["misses"]) == (1, [], [])


def test_explaining_shows_everything_near(
    models: Path, database: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    given = ["lookup", str(models / "batched.onnx"), "--target", str(MORE_CORES), "--explain"]
    assert run([*given, "--db", str(database)]) == ExitCode.MISS
    told = capfd.readouterr().err
    assert told.startswith(f"near {OP} | f32[2,8,16,16] ")
    assert f"other-shape: {OP} | f32[1,8,16,16] " in told
    assert "target.num-cores: wanted" in told
    run([*given, "--db", str(database), "--json"])
    (near,) = json.loads(capfd.readouterr().out)["near"].values()
    assert [one["reason"] for one in near] == ["other-shape"]
    assert difference("buffers[0][0]", 2, 1) in near[0]["differences"]
