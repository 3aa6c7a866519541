"""Random inputs for a program, by dtype and index range.

TVM's own filler writes numbers of the order 1e18 into index buffers, with which a gather reads
out of bounds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tunebook.cache.errors import TunebookError
from tunebook.tuner.splitting.program import BufferSpec, Program

_SEED = 20_240
# Integers that may count, divide or index something of unknown extent.
_LOW, _HIGH = 1, 127

Array = npt.NDArray[Any]


def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's dtype for one as TVM spells it.

    Raises TunebookError for one that NumPy has not, or that TVM packs several into a byte.
    """
    try:
        dtype = np.dtype(getattr(ml_dtypes, name, name))
    except TypeError:
        dtype = None
    bits = re.search(r"\d+", name)
    if dtype is None or (bits and int(bits[0]) != dtype.itemsize * 8):
        raise TunebookError(
            f"no random input can be made for buffers of type {name}; leave this task out"
        )
    return dtype


def random_inputs(program: Program, *, positive: bool = False) -> list[Array]:
    """An array for each buffer that the program reads, the same ones at every call.

    Floats lie in [-1, 1), or in [0.1, 1) where `positive`, which keeps roots and logarithms
    finite; indices in their range; 8-bit integers anywhere; other integers in [1, 127).
    """
    generator = np.random.default_rng(_SEED)
    inputs = [buffer for buffer in program.buffers if not buffer.output]
    return [_random(buffer, generator, positive) for buffer in inputs]


def spoiled(buffer: BufferSpec) -> Array:
    """An array of what no program computes by chance, to find what was never written.

    Floats are half the largest of their type, and not NaN, which a program may well compute;
    integers are -1 or the largest, booleans alternate.
    """
    dtype = numpy_dtype(buffer.dtype)
    if is_float(dtype):
        return np.full(buffer.shape, float(ml_dtypes.finfo(dtype).max) / 2).astype(dtype)
    array = np.empty(buffer.shape, dtype)
    flat = array.reshape(-1).view(np.uint8)
    flat[...] = 0xFF if dtype.kind != "b" else np.arange(flat.size) % 2
    return array


def byte_count(buffers: Iterable[BufferSpec]) -> int:
    """The bytes of all these buffers together."""
    return sum(math.prod(one.shape) * numpy_dtype(one.dtype).itemsize for one in buffers)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether it is a floating-point type, those of ml_dtypes included."""
    return dtype.kind == "f" or (dtype.kind == "V" and "float" in dtype.name)


def _random(buffer: BufferSpec, generator: np.random.Generator, positive: bool) -> Array:
    dtype = numpy_dtype(buffer.dtype)
    if is_float(dtype):
        low = 0.1 if positive else -1.0
        return generator.uniform(low, 1.0, buffer.shape).astype(dtype)
    if dtype.kind == "b":
        return generator.integers(0, 2, buffer.shape).astype(dtype)
    low, high = _integer_range(buffer, dtype)
    return generator.integers(low, high, buffer.shape).astype(dtype)


def _integer_range(buffer: BufferSpec, dtype: np.dtype[Any]) -> tuple[int, int]:
    if buffer.low is not None and buffer.high is not None:
        return buffer.low, max(buffer.high, buffer.low + 1)
    if dtype.itemsize == 1:
        limits = np.iinfo(dtype)
        return int(limits.min), int(limits.max) + 1
    return _LOW, _HIGH
