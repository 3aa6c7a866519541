"""Outputs are compared within a tolerance by dtype and reduction length."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from trial_samples import elementwise, matmul

from tunebook.cache.keys import WorkloadKey
from tunebook.cache.records import ErrorClass
from tunebook.tuner.splitting.program import BufferSpec, Program
from tunebook.tuner.trials.tensors import spoiled
from tunebook.tuner.trials.verify import compare, finite_share, tolerance

KEY = WorkloadKey("test", "", "", "")


def program(
    dtype: str = "float32", reduction_length: int = 1, shape=(4,), tir: str = ""
) -> Program:
    buffers = (BufferSpec(dtype, shape, False), BufferSpec(dtype, shape, True))
    return Program(KEY, tir, buffers, 1.0, reduction_length)


def verdict(reference, candidate, dtype: str = "float32", **options):
    arrays = [
        np.array(one).astype(getattr(ml_dtypes, dtype, dtype)) for one in (reference, candidate)
    ]
    return compare(program(dtype, shape=arrays[0].shape, **options), arrays[:1], arrays[1:])


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("reference", "candidate", "options", "agrees"),
    [
        pytest.param([1, 2, 3, 4], [1, 2, 3, 4], {}, True, id="equal"),
        pytest.param([1, 2, 3, 4], [1, 2, 3, 4.00002], {}, True, id="rounded otherwise"),
        pytest.param([1, 2, 3, 4], [1, 2, 3, 4.001], {}, False, id="wrong in the third digit"),
        pytest.param(
            [1, 2, 3, 4], [1, 2, 3, 4.001], {"reduction_length": 900}, True, id="a long sum"
        ),
        pytest.param([100, -100, 0, 1], [100, -100, 1e-4, 1], {}, True, id="cancelled to near 0"),
        pytest.param([1, NAN, 3, 4], [1, NAN, 3, 4], {}, True, id="NaN in both"),
        pytest.param([1, NAN, 3, 4], [1, 2, 3, 4], {}, False, id="a number for NaN"),
        pytest.param([1, 2, 3, 4], [1, NAN, 3, 4], {}, False, id="NaN for a number"),
        pytest.param([1, INF, 3, 4], [1, INF, 3, 4], {}, True, id="the same infinity"),
        pytest.param([1, INF, 3, 4], [1, -INF, 3, 4], {}, False, id="the other infinity"),
        pytest.param([NAN, NAN], [NAN, 1], {}, False, id="a number where nothing is"),
        pytest.param(1.0, 1.0, {}, True, id="a scalar"),
        pytest.param(1.0, 2.0, {}, False, id="another scalar"),
        pytest.param(np.zeros((0, 3)), np.zeros((0, 3)), {}, True, id="no elements"),
        pytest.param([1, 2], [1.02, 2], {"dtype": "float16"}, True, id="float16 rounded"),
        pytest.param([1, 2], [1.2, 2], {"dtype": "float16"}, False, id="float16 wrong"),
        pytest.param([1, 2], [1.04, 2], {"dtype": "bfloat16"}, True, id="bfloat16 rounded"),
        pytest.param([1, 2], [2, 2], {"dtype": "bfloat16"}, False, id="bfloat16 wrong"),
        pytest.param([1, 2], [1, 2.00001], {"dtype": "float64"}, False, id="float64 wrong"),
        pytest.param([1, 2], [1, 3], {"dtype": "int32"}, False, id="int32 is exact"),
        pytest.param([1, 2], [1, 2], {"dtype": "int64"}, True, id="int64 equal"),
        pytest.param([0, 1], [1, 1], {"dtype": "bool"}, False, id="a wrong boolean"),
        pytest.param([0, 255], [255, 255], {"dtype": "uint8"}, False, id="wrong bytes"),
    ],
)
def test_outputs_agree_as_far_as_their_type_can(reference, candidate, options, agrees) -> None:
    found = verdict(reference, candidate, **options)
    assert found.agrees is agrees, found.text
    assert found.error is (None if agrees else ErrorClass.WRONG_OUTPUT)


class TestBytesThatAreRoundedFromFloats:
    REFERENCE = np.arange(200) % 100

    def test_may_be_off_by_one_here_and_there(self) -> None:
        candidate = self.REFERENCE.copy()
        candidate[7] += 1
        assert verdict(self.REFERENCE, candidate, "int8", tir='"dtype": "float32"').agrees

    def test_may_not_be_off_by_one_everywhere(self) -> None:
        tir = '"dtype": "float32"'
        assert not verdict(self.REFERENCE, self.REFERENCE + 1, "int8", tir=tir).agrees

    def test_may_not_be_off_by_two_anywhere(self) -> None:
        candidate = self.REFERENCE.copy()
        candidate[7] += 2
        assert not verdict(self.REFERENCE, candidate, "int8", tir='"dtype": "float32"').agrees

    def test_are_exact_in_a_program_without_floats(self) -> None:
        candidate = self.REFERENCE.copy()
        candidate[7] += 1
        assert not verdict(self.REFERENCE, candidate, "int8", tir='"dtype": "int32"').agrees

    def test_a_real_program_says_whether_it_computes_with_floats(self) -> None:
        assert "float" in elementwise(lambda x: x + 1.0).tir
        assert "float" not in elementwise(lambda x: x + 1, "int8").tir


def test_the_text_tells_the_difference_where_it_is_and_what_is_allowed() -> None:
    text = verdict([[1, 2], [3, 4]], [[1, 2], [3.5, 4]]).text
    assert "differs by 0.5 at [1, 0]" in text
    assert "tolerance 5.74e-05" in text


@pytest.mark.parametrize("value", [NAN, INF])
def test_where_nothing_is_finite_nothing_is_compared(value: float) -> None:
    found = verdict([value, value], [value, value])
    assert not found.agrees
    assert found.error is None
    assert "no finite number" in found.text


def test_a_wrong_output_is_wrong_beside_one_that_cannot_be_compared() -> None:
    one = BufferSpec("float32", (2,), True)
    two_outputs = Program(KEY, "", (one, one), 1.0, 1)
    nothing, right, wrong = (np.full(2, value, "float32") for value in (NAN, 0, 1))
    assert compare(two_outputs, [nothing, right], [nothing, right]).error is None
    found = compare(two_outputs, [nothing, right], [nothing, wrong])
    assert found.error is ErrorClass.WRONG_OUTPUT
    assert "output 1" in found.text


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("value", [NAN, INF, 0.0, 1.0])
def test_what_was_never_written_is_wrong_whatever_it_should_be(dtype: str, value: float) -> None:
    one = program(dtype)
    reference = np.array([0, 1, 2, value]).astype(getattr(ml_dtypes, dtype, dtype))
    candidate = reference.copy()
    candidate[3] = spoiled(one.buffers[-1])[3]
    assert compare(one, [reference], [candidate]).error is ErrorClass.WRONG_OUTPUT


def test_a_wrong_shape_is_a_wrong_output() -> None:
    found = compare(program(), [np.zeros(4, "float32")], [np.zeros(5, "float32")])
    assert not found.agrees
    assert "(5,)" in found.text and "(4,)" in found.text


def test_the_second_of_two_outputs_counts_too() -> None:
    one = BufferSpec("float32", (2,), True)
    two_outputs = Program(KEY, "", (one, one), 1.0, 1)
    right, wrong = np.zeros(2, "float32"), np.ones(2, "float32")
    found = compare(two_outputs, [right, right], [right, wrong])
    assert not found.agrees
    assert "output 1" in found.text


def test_a_narrow_input_widens_the_tolerance_of_a_wide_output() -> None:
    narrow, wide = matmul("float16", "float32"), matmul("float32", "float32")
    assert tolerance(narrow, narrow.buffers[-1]) > tolerance(wide, wide.buffers[-1])


def test_the_tolerance_of_real_sums_covers_another_order_of_summation() -> None:
    left, right = np.random.default_rng(1).uniform(-1, 1, (2, 64, 64)).astype("float32")
    backwards = np.zeros((64, 64), "float32")
    for k in reversed(range(64)):
        backwards += np.outer(left[:, k], right[k])
    assert compare(matmul(), [left @ right], [backwards]).agrees


def test_the_finite_share_counts_neither_nan_nor_infinity() -> None:
    assert finite_share([np.array([1.0, NAN, INF, 2.0])]) == 0.5
    assert finite_share([np.zeros(0)]) == 1.0
