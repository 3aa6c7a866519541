"""AArch64 code tuned on the emulated board: built here, run there, compared with onnxruntime."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import rpc, te

from tunebook.cache.buffers import buffers_text
from tunebook.cache.errors import ExitCode
from tunebook.cache.keys import WorkloadKey
from tunebook.cache.misses import MissReason
from tunebook.cache.records import ErrorClass, Model, Task, Workload
from tunebook.cache.store import Store
from tunebook.cache.targets import Target
from tunebook.tuner.compiler import compiler_text
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.importing.frontend import read_model
from tunebook.tuner.llvm_targets import resolve_target
from tunebook.tuner.splitting.program import buffers_of, flops_of
from tunebook.tuner.splitting.split import normalized
from tunebook.tuner.trials.trials import BoardAddress
from tunebook.workers.boards.board_supervisor import BoardSupervisor
from tunebook.workers.boards.boards import plan_boards
from tunebook.workers.boards.emulated_board import emulated_board
from tunebook.workers.boards.emulated_sysroot import emulated_sysroot
from tunebook.workers.boards.guest_server import EMULATED_CLASS, GUEST_LIMITS, guest_server
from tunebook.workers.boards.tracker import TrackerAddress, query_tracker, running_tracker
from tunebook.workers.commands.search_worker import SearchWorker
from tunebook.workers.rounds.workbench import WorkerSettings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.emulated,
    pytest.mark.skipif(
        shutil.which("qemu-aarch64-static") is None,
        reason="no qemu-aarch64-static: apt-get install qemu-user-static",
    ),
]

A76 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=1"


@pytest.fixture(scope="module")
def board() -> Iterator[BoardAddress]:
    with emulated_board() as address:
        yield address


@dataclass(frozen=True)
class _Case:
    """A model to tune, and how far its outputs may be from onnxruntime's."""

    name: str
    trials: int
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    relative: float = 1e-3
    absolute: float = 1e-4


@pytest.fixture
def model_file(
    case: _Case, request: pytest.FixtureRequest, onnx_models: ModuleType, tmp_path: Path
) -> Path:
    """A model of a package, or one of onnx_models.py."""
    make = getattr(onnx_models, case.name, None)
    path: Path = (
        request.getfixturevalue(case.name)
        if make is None
        else onnx_models.save(tmp_path / f"{case.name}.onnx", make())
    )
    return path


@pytest.mark.parametrize(
    "case",
    [
        _Case("rnet", 24, {"input_2": (1, 24, 24, 3)}),
        _Case("magika", 30, {"bytes": (1, 2048)}),
        _Case("quantised", 16),
        _Case("half_precision", 16, {"x": (1, 3, 8, 8)}, relative=2e-2, absolute=2e-2),
    ],
    ids=["rnet", "magika", "int8 QDQ", "fp16"],
)
def test_a_model_tuned_there_runs_there_and_agrees_with_onnxruntime(
    case: _Case,
    model_file: Path,
    board: BoardAddress,
    tunebook: Any,
    tmp_path: Path,
    onnxruntime_says: Callable[..., list[Any]],
) -> None:
    options = [f"--shape={key}={','.join(map(str, size))}" for key, size in case.shapes.items()]
    common = [model_file, "--target", A76, *options, "--db", tmp_path / "tunebook.db"]
    tuned = tunebook(
        "tune", *common, "--boards", "emulated-aarch64", "--trials", case.trials, "--json"
    )
    assert tuned.code == ExitCode.OK, tuned.err
    assert tuned.document["trials"] == case.trials
    assert all(task["tuned_seconds"] > 0 for task in tuned.document["tasks"])

    refused = tunebook("build", *common, "-o", tmp_path / "model", "--json")
    assert refused.code == ExitCode.MISS
    assert {miss["reason"] for miss in refused.document["misses"]} == {"emulated-only"}

    built = tunebook("build", *common, "-o", tmp_path / "model", "--accept-emulated", "--json")
    assert built.code == ExitCode.OK, built.err
    inputs = _inputs(model_file, case.shapes)
    outputs = _run_there(board, Path(built.document["library"]), list(inputs.values()))
    for ours, theirs in zip(outputs, onnxruntime_says(model_file, inputs), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=case.relative, atol=case.absolute)


def test_code_for_another_processor_fails_on_the_board_and_is_never_served(
    tmp_path: Path,
) -> None:
    """The traces of an int8 layer for cortex-a76 hold `sdot`, which a cortex-a72 has not."""
    target = resolve_target(A76)
    model = _dense_layer(target)
    (key,) = model.keys
    with (
        Store.open(str(tmp_path / "tunebook.db")) as store,
        emulated_board(cpu="cortex-a72") as board,
    ):
        _tune(model, target, store, board, 12)
        records = store.records(key)
        answer = store.lookup([key], accept_emulated=True)
        _assert_alive(board)
    assert len(records) == 12
    ran = [record for record in records if record.measurement.error is not ErrorClass.BUILD]
    assert ran, "TVM could not build a single one of them"
    for record in ran:
        kinds = [instruction[0] for instruction in json.loads(record.candidate.trace)[0]]
        assert "Tensorize" in kinds
        assert record.measurement.error is ErrorClass.RUN
        assert "SIGILL" in record.measurement.error_text
    assert answer.hits == {}
    assert [miss.reason for miss in answer.misses] == [MissReason.ONLY_FAILURES]


def test_code_goes_to_those_boards_of_a_class_whose_processors_run_it(tmp_path: Path) -> None:
    """The same layer, on a tracker with a board that has `sdot` and one that has not."""
    target = resolve_target(A76)
    model = _dense_layer(target)
    (key,) = model.keys
    with (
        Store.open(str(tmp_path / "tunebook.db")) as store,
        running_tracker() as tracker,
        _emulated(tracker, "cortex-a72"),
        _emulated(tracker, "max"),
        plan_boards(target, EMULATED_CLASS, str(tracker)).open() as boards,
    ):
        _tune(model, target, store, boards, 6)
        records = store.records(key)
        assert {board.name for board in query_tracker(tracker).boards} == {"cortex-a72", "max"}
    ran = [record for record in records if record.measurement.error is not ErrorClass.BUILD]
    assert ran, "TVM could not build a single one of them"
    assert ErrorClass.RUN not in {record.measurement.error for record in ran}
    assert {record.measurement.board for record in ran} == {"max"}


def _emulated(tracker: TrackerAddress, cpu: str) -> BoardSupervisor:
    """A board of the emulated class at a tracker, called as its processor."""
    server = guest_server(emulated_sysroot(), cpu)
    return BoardSupervisor(server, tracker, EMULATED_CLASS, name=cpu, limits=GUEST_LIMITS)


def _dense_layer(target: Target) -> Model:
    """An int8 dense layer, as a model of one task: 16 rows of 64 by weights of 32 rows of 64."""
    data = te.placeholder((16, 64), "int8", "data")
    weights = te.placeholder((32, 64), "int8", "weights")
    along = te.reduce_axis((0, 64), "along")
    dense = te.compute(
        (16, 32),
        lambda i, j: te.sum(
            data[i, along].astype("int32") * weights[j, along].astype("int32"), axis=along
        ),
        "dense",
    )
    module = normalized(te.create_prim_func([data, weights, dense]))
    key = WorkloadKey(
        "dense", buffers_text(buffers_of(module)), compiler_text(), module_hash(module)
    )
    workload = Workload(key, tvm.ir.save_json(module), flops_of(module))
    return Model("0" * 64, "", str(target), compiler_text(), "", (Task(workload, 1),))


def _tune(model: Model, target: Target, store: Store, board: BoardAddress, trials: int) -> None:
    job = store.submit_job(
        store.save_model(model), board.board_class, trials=trials, more=None, emulated=True
    )
    settings = WorkerSettings.for_this_machine(board_timeout=60)
    SearchWorker(store, target, board, settings, lambda progress: None).run(job)


def _inputs(path: Path, shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    random = np.random.default_rng(3)
    return {
        one.name: random.integers(0, 257, one.shape).astype(one.dtype)
        if "int" in one.dtype
        else random.standard_normal(one.shape).astype(one.dtype)
        for one in read_model(path, shapes).inputs
    }


def _run_there(board: BoardAddress, library: Path, inputs: list[Any]) -> list[Any]:
    tracker = rpc.connect_tracker(board.tracker_host, board.tracker_port)
    session = tracker.request(board.board_class, session_timeout=120)
    session.upload(str(library))
    module = session.load_module(library.name)
    device = session.cpu()
    machine = tvm.relax.VirtualMachine(module, device)
    machine.set_input("main", *[tvm.runtime.tensor(array, device) for array in inputs])
    machine.invoke_stateful("main")
    outputs = machine.get_outputs("main")
    several = outputs if isinstance(outputs, tuple | list) else (outputs,)
    answers = [output.numpy() for output in several]
    # Python may keep the session for long, and the next case would wait for its board.
    session.get_function("CloseRPCConnection")()
    return answers


def _assert_alive(board: BoardAddress) -> None:
    tracker = rpc.connect_tracker(board.tracker_host, board.tracker_port)
    session = tracker.request(board.board_class, session_timeout=120)
    array = tvm.runtime.tensor(np.arange(4, dtype="float32"), session.cpu())
    np.testing.assert_array_equal(array.numpy(), [0, 1, 2, 3])
