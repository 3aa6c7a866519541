"""Whether a scheduled kernel computes what the unscheduled one does.

Tolerances, as a share of (root mean square of the reference + the reference's own value), where k
is the longest chain of accumulations, since another order of summation moves a sum by some
eps * sqrt(k):

- float64: 1e-9 * sqrt(k); float32: 1e-5 * sqrt(k), at most 1e-2;
- float16, bfloat16 and narrower: 4 * eps * sqrt(k), at least 1e-2, at most 0.25; they apply when
  any buffer has such a type, since the program's own intermediate results may have it too;
- integers and booleans: exact; but an 8-bit integer that the program rounds from floats may be off
  by one in one element of a hundred, since contracting a multiplication and an addition moves
  values across the rounding boundary.

NaN equals NaN, and an infinity the same infinity; an output in which the reference has no finite
number is not compared, since it would agree with anything that computes as little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tunebook.cache.records import ErrorClass
from tunebook.tuner.splitting.program import BufferSpec, Program
from tunebook.tuner.trials.tensors import Array, is_float, numpy_dtype
from tunebook.tuner.trials.trials import VerificationResult

_ROUNDED_SHARE = 0.01


def compare(
    program: Program, reference: Sequence[Array], candidate: Sequence[Array]
) -> VerificationResult:
    """Compares a program's outputs, in the order of its buffers."""
    texts, all_compared = [], True
    outputs = [buffer for buffer in program.buffers if buffer.output]
    for number, (buffer, right, found) in enumerate(
        zip(outputs, reference, candidate, strict=True)
    ):
        name = f"output {number}" if len(outputs) > 1 else "the output"
        agrees, text = _compare_one(program, buffer, right, found)
        if agrees is False:
            return VerificationResult(False, f"{name} {text}", ErrorClass.WRONG_OUTPUT)
        all_compared = all_compared and agrees is not None
        texts.append(f"{name} {text}")
    return VerificationResult(all_compared, "; ".join(texts))


def tolerance(program: Program, buffer: BufferSpec) -> float:
    """The share by which an element of this output may differ; 0 means exact."""
    dtype = numpy_dtype(buffer.dtype)
    if not is_float(dtype):
        return 0.0
    floats = [d for one in program.buffers if is_float(d := numpy_dtype(one.dtype))]
    eps = max(float(ml_dtypes.finfo(one).eps) for one in floats)
    root = math.sqrt(max(1, program.reduction_length))
    if eps > 1e-4:
        return min(0.25, max(1e-2, 4 * eps * root))
    if eps > 1e-10:
        return min(1e-2, 1e-5 * root)
    return 1e-9 * root


def finite_share(outputs: Sequence[Array]) -> float:
    """How much of the outputs is neither NaN nor infinite; 1 where nothing could be."""
    counts = [(np.isfinite(_wide(one)).sum(), one.size) for one in outputs]
    total = sum(size for _, size in counts)
    return float(sum(count for count, _ in counts) / total) if total else 1.0


def _compare_one(
    program: Program, buffer: BufferSpec, right: Array, found: Array
) -> tuple[bool | None, str]:
    """None where there is nothing to compare."""
    if right.shape != found.shape or right.dtype != found.dtype:
        return False, f"is {found.dtype}{found.shape}, not {right.dtype}{right.shape}"
    if is_float(right.dtype):
        return _compare_floats(right, found, tolerance(program, buffer))
    return _compare_integers(right, found, may_round=_may_round(program, right.dtype))


def _may_round(program: Program, dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "iu" and dtype.itemsize == 1 and "float" in program.tir


def _compare_floats(right: Array, found: Array, share: float) -> tuple[bool | None, str]:
    right, found = _wide(right), _wide(found)
    finite = np.isfinite(right) & np.isfinite(found)
    same = (right == found) | (np.isnan(right) & np.isnan(found))
    if not np.all(finite | same):
        where = np.argwhere(~(finite | same))[0]
        at = tuple(int(one) for one in where)
        return False, f"is {found[at]:g} where it should be {right[at]:g}, at {list(at)}"
    if not right.size:
        return True, "has no elements"
    if not finite.any():
        return None, "holds no finite number in either program, so nothing was compared"
    scale = math.sqrt(float(np.mean(np.square(right[finite]))))
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.where(finite, np.abs(right - found), 0.0)
        allowed = share * (scale + np.where(finite, np.abs(right), 0.0))
    worst = np.unravel_index(np.argmax(difference - allowed), difference.shape)
    at = tuple(int(one) for one in worst)
    text = (
        f"differs by {difference[at]:.3g} at {list(at)} (tolerance {allowed[at]:.3g}, "
        f"largest difference {difference.max():.3g})"
    )
    return bool(difference[at] <= allowed[at]), text


def _compare_integers(right: Array, found: Array, *, may_round: bool) -> tuple[bool, str]:
    if right.dtype.kind == "b":
        right, found = right.astype(np.int8), found.view(np.uint8).astype(np.int16)
    wrong = right != found
    if not wrong.any():
        return True, "is equal"
    difference = np.abs(_wide(right) - _wide(found))
    worst = np.unravel_index(np.argmax(difference), difference.shape)
    at = tuple(int(one) for one in worst)
    share = float(wrong.mean())
    text = (
        f"differs in {share:.2%} of its elements, most by {difference[at]:g} at {list(at)} "
        f"(tolerance {f'1 in {_ROUNDED_SHARE:.0%} of them' if may_round else '0'})"
    )
    return bool(may_round and difference[at] <= 1 and share <= _ROUNDED_SHARE), text


def _wide(array: Array) -> Array:
    return array.astype(np.float64)
