"""The hash that tells programs apart: TVM's structural hash, as 16 hex digits."""

from __future__ import annotations

from typing import Any

import tvm_ffi


def module_hash(mod: Any) -> str:
    """The structural hash of an IRModule."""
    return f"{tvm_ffi.structural_hash(mod) & 0xFFFFFFFFFFFFFFFF:016x}"
