"""Memory that is not used any more goes back to the system.

A search frees most of what it takes, in pieces and from several threads; the C library keeps it for
the next, which fits into it less and less.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any


def give_freed_memory_back() -> None:
    """Takes some milliseconds, and other threads go on meanwhile. Does nothing where the C library
    is another than glibc."""
    trim: Callable[[int], Any] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
