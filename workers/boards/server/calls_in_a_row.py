"""A kernel called again and again, by TVM's own loop."""

from __future__ import annotations

from typing import Any

import tvm_ffi

_CPU = 1
_FIRST_CPU = 0


def calls_in_a_row(library: Any, entry: str, number: int, repeat: int) -> Any:
    """A function that calls the library's once, and then `repeat` times `number` times; it gives
    the mean seconds of each repeat, as bytes of doubles."""
    evaluator = tvm_ffi.get_global_func("runtime.RPCTimeEvaluator")
    return evaluator(library, entry, _CPU, _FIRST_CPU, number, repeat, 0, 0, 0, 1, 0, "")
