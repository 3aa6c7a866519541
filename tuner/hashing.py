"""The hash that tells programs apart: TVM's structural hash, as 16 hex digits."""

from __future__ import annotations

from typing import Any

import tvm_ffi


def module_hash(mod: Any) -> str:
    """The structural hash of an IRModule."""
    return structural_hash_text(mod)


def structural_hash_text(node: Any, *, map_free_vars: bool = False) -> str:
    """The structural hash of any part of a program, as 16 hex digits.

    With `map_free_vars` the variables that it uses and does not define are hashed by their types
    and order; otherwise the hash of such a part holds in this process only.
    """
    return f"{tvm_ffi.structural_hash(node, map_free_vars=map_free_vars):016x}"
