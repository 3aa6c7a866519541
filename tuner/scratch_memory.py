"""How much memory a scheduled program takes for itself, beside its arguments."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import tvm_ffi
from tvm import tirx

# Copies of what a block reads and writes, padded perhaps, come to a few times what the program has
# anyway; where that is small, so is whatever the copies take.
_TIMES_PROGRAM = 16
_ALWAYS_FREE = 64 * 1024 * 1024
_STATEMENTS_BELOW = ("body", "block", "seq", "then_case", "else_case", "init")


def takes_too_much(scheduled: Any, program: Any) -> str | None:
    """In words how much more memory a schedule takes than one that makes sense, or None.

    Boards are small, and a trace can pad or lay out a buffer to any size.
    """
    function = program["main"]
    own = sum(map(_bytes, function.params)) + sum(map(_bytes, _allocated(function.body)))
    limit = max(_ALWAYS_FREE, _TIMES_PROGRAM * own)
    taken = sum(map(_bytes, _allocated(scheduled["main"].body)))
    if taken <= limit:
        return None
    return f"the schedule takes {taken} bytes for copies, more than the {limit} it may"


def _allocated(statement: Any) -> Iterator[Any]:
    pending = [statement]
    while pending:
        node = pending.pop()
        yield from getattr(node, "alloc_buffers", ())
        for name in _STATEMENTS_BELOW:
            below = getattr(node, name, None)
            if isinstance(below, tvm_ffi.Array):
                pending.extend(below)
            elif below is not None:
                pending.append(below)


def _bytes(buffer: Any) -> int:
    extents = (int(one) for one in buffer.shape if isinstance(one, tirx.IntImm))
    return math.prod(extents) * int(buffer.dtype.itemsize)
