"""Inputs are filled by dtype and index range."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tunebook.cache.errors import TunebookError
from tunebook.cache.keys import WorkloadKey
from tunebook.tuner.splitting.program import BufferSpec, Program
from tunebook.tuner.trials.tensors import byte_count, random_inputs, spoiled

SHAPE = (40, 50)


def filled(dtype: str, *, positive: bool = False, **index_range: int) -> np.ndarray:
    buffer = BufferSpec(dtype, SHAPE, False, **index_range)
    (array,) = random_inputs(program(buffer), positive=positive)
    return array


def program(*buffers: BufferSpec) -> Program:
    return Program(WorkloadKey("", "", "", ""), "", buffers, 0.0, 1)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn"])
def test_floats_lie_around_zero(dtype: str) -> None:
    array = filled(dtype)
    assert array.dtype == np.dtype(getattr(ml_dtypes, dtype, dtype))
    wide = array.astype("float64")
    assert wide.shape == SHAPE
    assert -1 <= wide.min() < -0.8
    assert 0.8 < wide.max() <= 1


def test_positive_floats_keep_roots_and_logarithms_finite() -> None:
    assert filled("float32", positive=True).min() >= 0.1


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("int8", -128, 127), ("uint8", 0, 255), ("int32", 1, 126), ("int64", 1, 126), ("bool", 0, 1)],
)
def test_integers_fill_the_range_of_their_type(dtype: str, low: int, high: int) -> None:
    array = filled(dtype)
    assert array.dtype == np.dtype(dtype)
    assert int(array.min()) == low
    assert int(array.max()) == high


@pytest.mark.parametrize("dtype", ["int32", "int64", "int8"])
def test_indices_stay_within_their_range(dtype: str) -> None:
    array = filled(dtype, low=0, high=7)
    assert int(array.min()) == 0
    assert int(array.max()) == 6


def test_outputs_get_no_input() -> None:
    buffers = (BufferSpec("float32", (2,), False), BufferSpec("float32", (3,), True))
    assert [one.shape for one in random_inputs(program(*buffers))] == [(2,)]


def test_the_same_program_gets_the_same_inputs_again() -> None:
    np.testing.assert_array_equal(filled("float32"), filled("float32"))


def test_two_buffers_of_one_program_differ() -> None:
    one = BufferSpec("float32", SHAPE, False)
    first, second = random_inputs(program(one, one))
    assert (first != second).mean() > 0.9


@pytest.mark.parametrize("dtype", ["int4", "float4_e2m1fn", "handle"])
def test_a_type_that_cannot_be_filled_is_an_error_that_names_it(dtype: str) -> None:
    with pytest.raises(TunebookError, match=dtype):
        filled(dtype)


@pytest.mark.parametrize(
    "dtype",
    ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"],
)
def test_spoiled_floats_are_finite_and_larger_than_what_a_program_computes(dtype: str) -> None:
    array = spoiled(BufferSpec(dtype, SHAPE, True))
    assert array.dtype == np.dtype(getattr(ml_dtypes, dtype, dtype))
    wide = array.astype("float64")
    assert np.isfinite(wide).all()
    assert wide.min() > 200


@pytest.mark.parametrize(
    ("dtype", "value"), [("int8", -1), ("int64", -1), ("uint8", 255), ("uint32", 2**32 - 1)]
)
def test_spoiled_integers_have_all_bits_set(dtype: str, value: int) -> None:
    assert (spoiled(BufferSpec(dtype, SHAPE, True)) == value).all()


def test_spoiled_booleans_alternate() -> None:
    assert spoiled(BufferSpec("bool", (4,), True)).tolist() == [False, True, False, True]


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("shape", [(), (0, 3)])
def test_outputs_of_one_element_and_of_none_are_spoiled_too(dtype: str, shape) -> None:
    assert spoiled(BufferSpec(dtype, shape, True)).shape == shape


def test_a_scalar_has_the_bytes_of_one_element() -> None:
    assert byte_count([BufferSpec("float16", (), False), BufferSpec("bool", (3,), True)]) == 5
