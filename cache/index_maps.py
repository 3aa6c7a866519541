"""The index maps inside traces, which TVM saves as a graph of IR nodes.

TVM would load a node of any registered type, a call of an external function among them, and the
expression ends up in the kernel. So only sums, products, quotients and the like are let through.
"""

from __future__ import annotations

import json
import re
from typing import Any

_SIZE_LIMIT = 64 * 1024

_NODES = frozenset(
    {
        "None",
        "int",
        "ffi.String",
        "ffi.Array",
        "ir.PrimType",
        "ir.IntImm",
        "ir.Var",
        "prim.Add",
        "prim.Sub",
        "prim.Mul",
        "prim.FloorDiv",
        "prim.FloorMod",
        "prim.Min",
        "prim.Max",
        "tirx.IndexMap",
    }
)
_ENCODE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_NAME = re.compile(r"\w{1,100}")
_DTYPE = re.compile(r"u?int(8|16|32|64)|bool")


def check_index_map(text: str) -> str | None:
    """What is wrong with it (`holds a ir.Call`), or None."""
    if len(text) > _SIZE_LIMIT:
        return f"has {len(text)} characters, more than {_SIZE_LIMIT}"
    try:
        graph = json.loads(text)
        # Of a name that is given twice TVM's reader might take the other value than ours: what is
        # written again the same has none, nor any other freedom of JSON's.
        as_tvm_writes = _ENCODE(graph) == text
    except (ValueError, RecursionError):
        return "is no JSON"
    if not as_tvm_writes:
        return "is not written as TVM writes it"
    if not isinstance(graph, dict) or set(graph) - {"root_index", "nodes", "metadata"}:
        return "is no graph of nodes"
    nodes = graph.get("nodes")
    if not isinstance(nodes, list) or not _refers(graph.get("root_index"), len(nodes)):
        return "is no graph of nodes"
    for number, node in enumerate(nodes):
        if not isinstance(node, dict) or set(node) - {"type", "data"}:
            return "is no graph of nodes"
        kind = node.get("type")
        if not isinstance(kind, str) or kind not in _NODES:
            return f"holds {str(kind)[:80]!r}"
        if not _is_data(kind, node.get("data"), number):
            return f"holds a malformed {kind}"
    return None


def _is_data(kind: str, data: Any, number: int) -> bool:
    """Whether a node holds what its kind does. Nodes refer to earlier ones only: no cycles."""
    if kind == "None":
        return data is None
    if kind == "int":
        return isinstance(data, int) and abs(data) < 1 << 62
    if kind == "ffi.String":
        return isinstance(data, str) and bool(_NAME.fullmatch(data))
    if kind == "ffi.Array":
        return isinstance(data, list) and all(_refers(item, number) for item in data)
    if not isinstance(data, dict):
        return False
    if kind == "ir.PrimType":
        dtype = data.get("dtype")
        if not isinstance(dtype, str) or not _DTYPE.fullmatch(dtype):
            return False
        data = {name: value for name, value in data.items() if name != "dtype"}
    return all(_refers(value, number) for value in data.values())


def _refers(value: Any, below: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < below
