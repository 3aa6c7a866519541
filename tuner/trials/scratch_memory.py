"""How much memory a scheduled program takes for itself, beside its arguments."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tvm import tirx

from tunebook.tuner.splitting.program import ENTRY
from tunebook.tuner.traces.blocks import blocks_in

# Copies of what a block reads and writes, padded perhaps, come to a few times what the program has
# anyway; where that is small, so is whatever the copies take.
_TIMES_PROGRAM = 16
_ALWAYS_FREE = 64 * 1024 * 1024


def takes_too_much(scheduled: Any, program: Any) -> str | None:
    """In words how much more memory a schedule takes than one that makes sense, or None.

    Boards are small, and a trace can pad or lay out a buffer to any size.
    """
    function = program[ENTRY]
    own = sum(map(_bytes, function.params)) + sum(map(_bytes, _allocated(function.body)))
    limit = max(_ALWAYS_FREE, _TIMES_PROGRAM * own)
    taken = sum(map(_bytes, _allocated(scheduled[ENTRY].body)))
    if taken <= limit:
        return None
    return f"the schedule takes {taken} bytes for copies, more than the {limit} it may"


def _allocated(statement: Any) -> Iterator[Any]:
    for block in blocks_in(statement):
        yield from block.alloc_buffers


def _bytes(buffer: Any) -> int:
    extents = (int(one) for one in buffer.shape if isinstance(one, tirx.IntImm))
    return math.prod(extents) * int(buffer.dtype.itemsize)
