"""Models split into tasks with keys that hold in every process, model and import."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import tvm
from tvm import relax
from tvm.s_tir.meta_schedule.relax_integration import extract_tasks

from tunebook.cache.buffers import buffers_text
from tunebook.cache.keys import WorkloadKey
from tunebook.cache.records import Candidate, Task
from tunebook.cache.store import Store
from tunebook.cache.targets import Target
from tunebook.tuner.compiler import compiler_text
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.importing.imported_model import ImportedModel
from tunebook.tuner.llvm_targets import resolve_target, target_features, tvm_target
from tunebook.tuner.splitting.prepare import PreparedModule, prepare
from tunebook.tuner.splitting.program import BufferSpec
from tunebook.tuner.splitting.split import split, split_model

Read = Callable[..., ImportedModel]
SMALL = ["rnet", "onet", "pnet", "magika"]
LARGE = [pytest.param(f"ppocr_{part}", marks=pytest.mark.slow) for part in ("cls", "det", "rec")]

_PRINT_KEYS = """
import sys
from pathlib import Path
from tunebook.tuner.importing.frontend import read_model
from tunebook.tuner.llvm_targets import resolve_target
from tunebook.tuner.splitting.prepare import prepare
from tunebook.tuner.splitting.split import split

model = read_model(Path(sys.argv[1]), eval(sys.argv[2]))
for task in split(prepare(model, resolve_target("host"))):
    print(task.weight, task.workload.key.on("host"), task.workload.likeness)
"""


def keys_of(tasks: tuple[Task, ...]) -> list[WorkloadKey]:
    return [task.workload.key for task in tasks]


@pytest.mark.parametrize("name", [*SMALL, *LARGE])
def test_published_models_split_into_their_tasks(
    name: str, prepared: Callable[[str], PreparedModule], published: dict[str, Any]
) -> None:
    tasks = split(prepared(name))
    assert len(tasks) == published[name].tasks
    assert len(set(keys_of(tasks))) == len(tasks)


@pytest.mark.parametrize("name", SMALL)
def test_workloads_are_those_of_tvms_own_pipeline(
    name: str, prepared: Callable[[str], PreparedModule], host: Target
) -> None:
    one = prepared(name)
    target = tvm_target(host)
    with target:
        stock = tvm.transform.Sequential(
            [
                relax.transform.DecomposeOpsForInference(),
                relax.transform.CanonicalizeBindings(),
                relax.get_pipeline("zero"),
            ]
        )(one.model.module)
    expected = {module_hash(task.dispatched[0]) for task in extract_tasks(stock, target)}
    assert {key.hash for key in keys_of(split(one))} == expected


def test_one_model_imported_in_two_processes_has_the_same_keys_and_likeness(
    published: dict[str, Any],
) -> None:
    path, shapes = published["rnet"].path, published["rnet"].shapes
    command = [sys.executable, "-c", _PRINT_KEYS, str(path), repr(shapes)]
    printed = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)
    ]
    assert len(printed[0].splitlines()) == published["rnet"].tasks
    assert printed[0] == printed[1]


@pytest.mark.parametrize(
    "order",
    [range(8)[::-1], [3, 0, 5, 2, 7, 4, 1, 6], [6, 4, 1, 7, 2, 0, 3, 5]],
    ids=["backwards", "shuffled", "shuffled otherwise"],
)
def test_keys_and_likeness_depend_on_no_name_and_no_order_of_nodes(
    order: Sequence[int], read: Read, host: Target
) -> None:
    plain = split(prepare(read("branches"), host))
    other = split(prepare(read("branches", order=order, prefix="other_"), host))
    assert keys_of(other) == keys_of(plain)
    assert [one.weight for one in other] == [one.weight for one in plain]
    likenesses = [[task.workload.likeness for task in tasks] for tasks in (plain, other)]
    assert likenesses[0] == likenesses[1]


def test_two_convolutions_alike_but_for_stride_have_two_keys(read: Read, host: Target) -> None:
    first, second = keys_of(split(prepare(read("two_strides"), host)))
    assert (first.op, first.buffers) == (second.op, second.buffers)
    assert first.hash != second.hash


def test_the_same_layer_in_two_models_has_one_key(read: Read, host: Target) -> None:
    alone = keys_of(split(prepare(read("convolution"), host)))
    among_others = keys_of(split(prepare(read("convolution_after_others"), host)))
    assert len(alone) == 1
    assert alone[0] in among_others


def test_weights_count_how_often_a_model_calls_a_workload(read: Read, host: Target) -> None:
    (relu,) = split(prepare(read("repeated_relu", times=3), host))
    assert relu.workload.key.op == "relu"
    assert relu.weight == 3


def test_the_target_leaves_the_workload_as_it_is(read: Read, host: Target) -> None:
    board = resolve_target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4")
    model = read("quantised")
    assert keys_of(split(prepare(model, board))) == keys_of(split(prepare(model, host)))


def test_an_int8_dense_layer_is_multiplied_as_int8_so_that_dot_products_can_be_used(
    read: Read, sample: Callable[..., Candidate]
) -> None:
    board = resolve_target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=1")
    (task,) = split(prepare(read("integer_dense"), board))
    assert task.workload.key.buffers == "i8[16,64] i8[64,32] -> i32[16,32]"
    assert "sdot" in sample(task.workload, board).trace


@pytest.mark.parametrize("name", ["quantised", "gather", "integer_dense", "many_relus"])
def test_stored_tir_loads_again_with_the_hash_of_its_key(
    name: str, read: Read, host: Target
) -> None:
    for task in split(prepare(read(name), host)):
        module = tvm.ir.load_json(task.workload.tir)
        assert module_hash(module) == task.workload.key.hash


def test_a_key_spells_out_operators_buffers_and_compiler(read: Read, host: Target) -> None:
    (task,) = split(prepare(read("convolution"), host))
    key = task.workload.key
    assert key.op == "conv2d+relu"
    assert key.buffers == "f32[1,4,12,12] f32[8,4,3,3] -> f32[1,8,10,10]"
    assert key.compiler == compiler_text() == "tvm-0.27.0+llvm-22"
    assert len(key.hash) == 16
    assert task.workload.flops == 2 * 8 * 10 * 10 * 4 * 3 * 3 + 8 * 10 * 10


@pytest.mark.parametrize(
    ("dtype", "short"),
    [
        ("float32", "f32"),
        ("float16", "f16"),
        ("bfloat16", "bf16"),
        ("int8", "i8"),
        ("uint8", "u8"),
        ("int64", "i64"),
        ("bool", "bool"),
    ],
)
def test_dtypes_are_short_and_scalars_have_no_extents(dtype: str, short: str) -> None:
    buffers = [BufferSpec(dtype, (2, 3), output=True), BufferSpec(dtype, (), output=False)]
    assert buffers_text(buffers) == f"{short}[] -> {short}[2,3]"


def test_a_split_model_says_what_it_was_split_from(read: Read, host: Target) -> None:
    imported = read("half_precision", {"x": (2, 3, 8, 8)})
    model = split_model(prepare(imported, host))
    assert model.digest == imported.digest
    assert model.shapes == "x=2,3,8,8"
    assert model.target == str(host)
    assert model.compiler == compiler_text()
    assert model.choices == ""
    assert model.target_features == target_features(host)
    assert {key.buffers.split("[")[0] for key in keys_of(model.tasks)} == {"f16"}


def test_scripted_models_are_written_by_one_command(
    tmp_path: Path, onnx_models: ModuleType
) -> None:
    script = Path(__file__).parents[1] / "onnx_models.py"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True, capture_output=True)
    assert {path.stem for path in tmp_path.glob("*.onnx")} == set(onnx_models.SCRIPTED)


def test_a_model_split_to_be_looked_up_is_never_stored(
    read: Read, host: Target, store: Store
) -> None:
    prepared = prepare(read("convolution"), host)
    model = split_model(prepared, with_tir=False)
    assert model.keys == split_model(prepared).keys
    with pytest.raises(ValueError, match="with their TIR"):
        store.save_model(model)
