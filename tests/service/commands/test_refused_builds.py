"""What build and look-up say and leave alone when schedules are missing."""

from __future__ import annotations

import json
import platform
import shlex
from pathlib import Path

import onnx
import pytest

from tunebook.cache.errors import ExitCode
from tunebook.cache.targets import ARCHITECTURES
from tunebook.service.cli import run

FOREIGN = "aarch64" if ARCHITECTURES.get(platform.machine()) == "x86_64" else "x86_64"
FOREIGN_TARGET = f"llvm -mtriple={FOREIGN}-linux-gnu -num-cores=1"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model of one task, with an open dimension; its name needs quoting."""
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    shape = ["n", 8]
    inputs = [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)]
    outputs = [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, shape)]
    graph = onnx.helper.make_graph([node], "net", inputs, outputs)
    opsets = [onnx.helper.make_opsetid("", 17)]
    path = tmp_path / "my net.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    return path


@pytest.fixture
def database(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Path:
    """A database with nothing in it."""
    path = tmp_path / "tunebook.db"
    assert run(["db", "upgrade", "--db", str(path)]) == ExitCode.OK
    capfd.readouterr()
    return path


def arguments(command: str, model: Path, database: Path, target: str = "host") -> list[str]:
    given = [command, str(model), "--target", target, "--shape", "x=2,8", "--db", str(database)]
    return [*given, "-o", str(model.parent / "out")] if command == "build" else given


@pytest.mark.parametrize("command", ["build", "lookup"])
def test_a_miss_is_a_json_document_with_the_code_of_a_miss(
    command: str, model: Path, database: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run([*arguments(command, model, database), "--json"]) == ExitCode.MISS
    document = json.loads(capfd.readouterr().out)
    assert not document["hits"]
    (miss,) = document["misses"]
    assert miss["reason"] == "never-tuned"
    assert list(model.parent.glob("out*")) == []


@pytest.mark.parametrize("command", ["build", "lookup"])
def test_the_mending_command_is_complete(
    command: str, model: Path, database: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments(command, model, database)) == ExitCode.MISS
    _, _, mending = capfd.readouterr().err.strip().rpartition("to mend: ")
    words = shlex.split(mending)
    assert words[:3] == ["tunebook", "tune", str(model)]
    assert words[words.index("--shape") + 1] == "x=2,8"
    assert words[words.index("--db") + 1] == str(database)
    assert "--boards" not in words


def test_it_asks_for_boards_where_this_machine_is_none(
    model: Path, database: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments("lookup", model, database, FOREIGN_TARGET)) == ExitCode.MISS
    assert "--boards CLASS --tracker HOST:PORT" in capfd.readouterr().err


@pytest.mark.skipif(FOREIGN != "aarch64", reason="the emulated board is an AArch64 one")
def test_it_names_the_emulated_board_to_those_who_accept_its_times(
    model: Path, database: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    given = arguments("lookup", model, database, FOREIGN_TARGET)
    assert run([*given, "--accept-emulated"]) == ExitCode.MISS
    assert "--boards emulated-aarch64" in capfd.readouterr().err


@pytest.mark.parametrize("command", ["build", "lookup"])
def test_a_mistyped_database_is_not_made(
    command: str, model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    database = tmp_path / "mistyped.db"
    assert run(arguments(command, model, database)) == ExitCode.DATABASE
    assert "mistyped.db" in capfd.readouterr().err
    assert not database.exists()
