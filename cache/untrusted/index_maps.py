"""The index maps inside traces, which TVM saves as a graph of IR nodes.

TVM would load a node of any registered type, a call of an external function among them, and the
expression ends up in the kernel. So only sums, products, quotients and the like are let through.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

_SIZE_LIMIT = 64 * 1024

_EXPRESSIONS = frozenset(
    {
        "ir.IntImm",
        "ir.Var",
        "prim.Add",
        "prim.Sub",
        "prim.Mul",
        "prim.FloorDiv",
        "prim.FloorMod",
        "prim.Min",
        "prim.Max",
    }
)
_OPERANDS: dict[str, Collection[str]] = {
    "span": {"None"},
    "ty": {"ir.PrimType"},
    "a": _EXPRESSIONS,
    "b": _EXPRESSIONS,
}
# The fields of each kind of node that has fields, and what they may refer to. A reference to
# something else, or none, ends the process that reads it.
_FIELDS: dict[str, dict[str, Collection[str]]] = {
    "ir.PrimType": {"span": {"None"}, "dtype": ()},
    "ir.IntImm": {"span": {"None"}, "ty": {"ir.PrimType"}, "value": {"int"}},
    "ir.Var": {"span": {"None"}, "ty": {"ir.PrimType"}, "name": {"ffi.String"}},
    **{kind: _OPERANDS for kind in _EXPRESSIONS if kind.startswith("prim.")},
    "tirx.IndexMap": {
        "initial_indices": {"ffi.Array"},
        "final_indices": {"ffi.Array"},
        "inverse_index_map": {"None", "tirx.IndexMap"},
    },
}
_NODES = frozenset({"None", "int", "ffi.String", "ffi.Array", *_FIELDS})
_LARGEST = 1 << 31
_ENCODE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_NAME = re.compile(r"\w{1,100}")
_DTYPE = re.compile(r"int(32|64)")
_DIVISIONS = frozenset({"prim.FloorDiv", "prim.FloorMod"})


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
    if not isinstance(nodes, list) or not all(map(_is_node, nodes)):
        return "is no graph of nodes"
    kinds: list[str] = []
    for node in nodes:
        kind = node.get("type")
        if not isinstance(kind, str) or kind not in _NODES:
            return f"holds {str(kind)[:80]!r}"
        if not _is_data(kind, node.get("data"), nodes, kinds):
            return f"holds a malformed {kind}"
        kinds.append(kind)
    if not _refers(graph.get("root_index"), kinds, {"tirx.IndexMap"}):
        return "is no graph of nodes"
    return None


def _is_node(node: Any) -> bool:
    return isinstance(node, dict) and not set(node) - {"type", "data"}


def _is_data(kind: str, data: Any, nodes: list[Any], kinds: list[str]) -> bool:
    """Whether a node holds what its kind does. Nodes refer to earlier ones only, whose `kinds` are
    known: no cycles."""
    if kind == "None":
        return data is None
    if kind == "int":
        return type(data) is int and -_LARGEST < data < _LARGEST
    if kind == "ffi.String":
        return isinstance(data, str) and bool(_NAME.fullmatch(data))
    if kind == "ffi.Array":
        return isinstance(data, list) and all(_refers(one, kinds, _EXPRESSIONS) for one in data)
    fields = _FIELDS[kind]
    if not isinstance(data, dict) or set(data) != set(fields):
        return False
    for name, value in data.items():
        if name == "dtype":
            if not isinstance(value, str) or not _DTYPE.fullmatch(value):
                return False
        elif not _refers(value, kinds, fields[name]):
            return False
    if kind in _DIVISIONS:
        return _divides(nodes, data["b"])
    return kind != "tirx.IndexMap" or _are_variables(nodes, kinds, data["initial_indices"])


def _refers(value: Any, kinds: list[str], allowed: Collection[str]) -> bool:
    return type(value) is int and 0 <= value < len(kinds) and kinds[value] in allowed


def _divides(nodes: list[Any], divisor: int) -> bool:
    """By a number that is not 0; TVM divides by nothing else in a layout."""
    node = nodes[divisor]
    return bool(node["type"] == "ir.IntImm" and nodes[node["data"]["value"]]["data"] > 0)


def _are_variables(nodes: list[Any], kinds: list[str], array: int) -> bool:
    names = nodes[array]["data"]
    return len(set(names)) == len(names) and all(kinds[one] == "ir.Var" for one in names)
