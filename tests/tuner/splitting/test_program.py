"""What measuring needs to know of a program, read from its stored TIR alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tvm
from tvm import te, tirx
from tvm_ffi import get_global_func

from tunebook.cache.records import Workload
from tunebook.cache.targets import Target
from tunebook.tuner.importing.imported_model import ImportedModel
from tunebook.tuner.splitting.prepare import PreparedModule, prepare
from tunebook.tuner.splitting.program import (
    BufferSpec,
    Program,
    buffers_of,
    describe,
    reduction_length,
)
from tunebook.tuner.splitting.split import split

Read = Callable[..., ImportedModel]
FIRST, LAST = tirx.IntImm("int64", 0), tirx.IntImm("int64", 99)


def workloads_by_op(model: ImportedModel, target: Target) -> dict[str, Workload]:
    tasks = split(prepare(model, target))
    return {task.workload.key.op: task.workload for task in tasks}


def module_of(*tensors: te.Tensor) -> object:
    normalize = get_global_func("tvm.s_tir.meta_schedule.normalize_mod")
    return normalize(te.create_prim_func(list(tensors)))


def test_a_program_is_described_from_its_stored_tir(read: Read, host: Target) -> None:
    workload = workloads_by_op(read("convolution"), host)["conv2d+relu"]
    assert describe(workload) == Program(
        key=workload.key,
        tir=workload.tir,
        buffers=(
            BufferSpec("float32", (1, 4, 12, 12), output=False),
            BufferSpec("float32", (8, 4, 3, 3), output=False),
            BufferSpec("float32", (1, 8, 10, 10), output=True),
        ),
        flops=workload.flops,
        reduction_length=4 * 3 * 3,
    )


def test_int64_indices_of_a_gather_stay_within_the_rows(read: Read, host: Target) -> None:
    workloads = workloads_by_op(read("gather"), host)
    _, rows, result = describe(workloads["take"]).buffers
    assert rows == BufferSpec("int64", (5,), output=False, low=0, high=100)
    assert result.output
    # The indices of the model itself are computed with, not read with.
    assert all(buffer.low is None for buffer in describe(workloads["less+add+where"]).buffers)


def indexed_by(index: Callable[[tirx.Expr, tirx.Expr], tirx.Expr], dtype: str = "int64") -> object:
    """A program that reads a table of 100 by what `index` makes of a value of `rows` and i."""
    table = te.placeholder((100,), "float32", name="table")
    rows = te.placeholder((5,), dtype, name="rows")
    result = te.compute((5,), lambda i: table[index(rows[i], i)], name="result")
    return module_of(table, rows, result)


@pytest.mark.parametrize(
    ("index", "low", "high"),
    [
        (lambda row, i: row, 0, 100),
        (lambda row, i: tirx.Cast("int32", row), 0, 100),
        (lambda row, i: tirx.Max(tirx.Min(row, LAST), FIRST), 0, 100),
        (lambda row, i: row + 7, -7, 93),
        (lambda row, i: row - 7, 7, 107),
        (lambda row, i: 99 - row, 0, 100),
        (lambda row, i: row * 10, 0, 10),
        (lambda row, i: row * 20 + i, 0, 5),
        (lambda row, i: tirx.floordiv(row, tirx.IntImm("int64", 2)), 0, 200),
        (lambda row, i: tirx.Select(row < 0, row + 100, row), 0, 100),
        (lambda row, i: tirx.if_then_else(i < 3, row, row + 1), 0, 99),
    ],
    ids=[
        "plain",
        "cast",
        "clamped",
        "shifted up",
        "shifted down",
        "mirrored",
        "scaled",
        "of rows of five",
        "divided",
        "wrapped where negative",
        "either of two",
    ],
)
def test_the_range_of_an_index_is_what_reads_within_bounds(
    index: Callable[[tirx.Expr, tirx.Expr], tirx.Expr], low: int, high: int
) -> None:
    (_, rows, _) = buffers_of(indexed_by(index))
    assert (rows.low, rows.high) == (low, high)


def test_an_index_is_followed_through_what_is_computed_on_the_way() -> None:
    table = te.placeholder((100, 8), "float32", name="table")
    rows = te.placeholder((5,), "int32", name="rows")
    wide = te.compute((5,), lambda i: rows[i].astype("int64"), name="wide")
    result = te.compute((5, 8), lambda i, j: table[wide[i], j], name="result")
    assert buffers_of(module_of(table, rows, result))[1].high == 100


def test_an_index_that_wraps_around_may_be_anything() -> None:
    (_, rows, _) = buffers_of(indexed_by(lambda row, i: tirx.floormod(row, 100)))
    assert (rows.low, rows.high) == (None, None)


def test_the_stricter_of_two_uses_counts() -> None:
    small = te.placeholder((10,), "float32", name="small")
    large = te.placeholder((100,), "float32", name="large")
    rows = te.placeholder((5,), "int64", name="rows")
    result = te.compute((5,), lambda i: small[rows[i]] + large[rows[i]], name="result")
    assert buffers_of(module_of(small, large, rows, result))[2].high == 10


def test_a_chain_of_reductions_adds_up() -> None:
    left = te.placeholder((4, 64), "float32", name="left")
    right = te.placeholder((64, 32), "float32", name="right")
    k = te.reduce_axis((0, 64), "k")
    product = te.compute((4, 32), lambda i, j: te.sum(left[i, k] * right[k, j], k), name="p")
    n = te.reduce_axis((0, 32), "n")
    result = te.compute((4,), lambda i: te.sum(product[i, n], n), name="result")
    assert reduction_length(module_of(left, right, result)) == 64 + 32


def test_without_a_reduction_the_length_is_one(
    prepared: Callable[[str], PreparedModule],
) -> None:
    lengths = {
        task.workload.key.op: describe(task.workload).reduction_length
        for task in split(prepared("rnet"))
    }
    assert lengths["transpose"] == 1
    assert lengths["max_pool2d"] > 1


def test_a_programs_arithmetic_may_be_none(prepared: Callable[[str], PreparedModule]) -> None:
    flops = {task.workload.key.op: task.workload.flops for task in split(prepared("rnet"))}
    assert flops["transpose"] == 0.0
    assert flops["conv2d+add+prelu"] > 0.0


def test_a_call_into_a_library_counts_as_no_arithmetic(read: Read, host: Target) -> None:
    assert workloads_by_op(read("largest_three"), host)["topk"].flops == 0.0


def test_a_call_into_a_library_writes_its_last_buffer(read: Read, host: Target) -> None:
    buffers = describe(workloads_by_op(read("largest_three"), host)["topk"]).buffers
    assert buffers[-1].output
    assert not buffers[0].output


def test_every_buffer_of_every_published_model_is_described(
    prepared: Callable[[str], PreparedModule],
) -> None:
    for task in split(prepared("magika")):
        module = tvm.ir.load_json(task.workload.tir)
        buffers = describe(task.workload).buffers
        assert len(buffers) == len(module["main"].params)
        assert any(buffer.output for buffer in buffers)
        assert not buffers[0].output
