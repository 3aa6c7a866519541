"""How long a kernel's straight-line code becomes is known from its schedule."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tvm
from tvm import te, tirx
from tvm.s_tir import Schedule

from tunebook.tuner.search.code_length import code_length
from tunebook.tuner.splitting.tir_walk import stores_in

Apply = Callable[[Schedule], None]
SIZE = 64


def doubled() -> Schedule:
    """64 x 64 elements, doubled."""
    data = te.placeholder((SIZE, SIZE), "float32", "data")
    result = te.compute((SIZE, SIZE), lambda i, j: data[i, j] * 2.0, "result")
    return Schedule(te.create_prim_func([data, result]))


def as_it_is(_: Schedule) -> None:
    pass


def vectorized(schedule: Schedule) -> None:
    _, j = schedule.get_loops(schedule.get_sblock("result"))
    _, inner = schedule.split(j, [None, 16])
    schedule.vectorize(inner)


def unrolled_by_itself(schedule: Schedule) -> None:
    i, _ = schedule.get_loops(schedule.get_sblock("result"))
    _, inner = schedule.split(i, [None, 4])
    j = schedule.get_loops(schedule.get_sblock("result"))[2]
    schedule.reorder(j, inner)
    schedule.unroll(inner)


def unrolled_up_to(most: int) -> Apply:
    """Vectors of 16, four in a row, and that 64 times."""

    def apply(schedule: Schedule) -> None:
        vectorized(schedule)
        i = schedule.get_loops(schedule.get_sblock("result"))[0]
        schedule.annotate(i, "pragma_auto_unroll_max_step", most)
        schedule.annotate(i, "pragma_unroll_explicit", 1)

    return apply


CASES = [
    pytest.param(as_it_is, 1, id="one element at a time"),
    pytest.param(vectorized, 16, id="a vector"),
    pytest.param(unrolled_by_itself, 4, id="a loop that is unrolled"),
    pytest.param(unrolled_up_to(3), 16, id="a loop too long to unroll"),
    pytest.param(unrolled_up_to(4), 64, id="a loop that may be unrolled"),
    pytest.param(unrolled_up_to(255), 64, id="and one around it that may not"),
    pytest.param(unrolled_up_to(256), SIZE * SIZE, id="and one that may"),
]


@pytest.mark.parametrize(("apply", "length"), CASES)
def test_vectors_and_unrolled_loops_count_as_often_as_they_go_round(
    apply: Apply, length: int
) -> None:
    schedule = doubled()
    apply(schedule)
    assert code_length(schedule.mod["main"]) == length


@pytest.mark.parametrize(("apply", "length"), CASES)
def test_tvm_makes_code_of_that_length(apply: Apply, length: int) -> None:
    schedule = doubled()
    apply(schedule)
    assert _elements_written(schedule.mod) == length


def _elements_written(module: tvm.IRModule) -> int:
    """By all the stores that TVM makes of a schedule, each once."""
    passes = [
        tvm.s_tir.transform.LowerInitBlock(),
        tvm.s_tir.transform.ConvertBlocksToOpaque(),
        tvm.s_tir.transform.LowerOpaqueBlock(),
        tirx.transform.FlattenBuffer(),
        tirx.transform.VectorizeLoop(),
        tirx.transform.UnrollLoop(),
    ]
    lowered = tvm.ir.transform.Sequential(passes)(module)["main"].body
    # A vector's index is a ramp.
    return sum(int(getattr(store.indices[-1], "lanes", 1)) for store in stores_in(lowered))
