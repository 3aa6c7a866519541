"""An index map in a trace is arithmetic, written as TVM writes it, or is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from trace_samples import refusal, trace_of

from tunebook.cache.untrusted.traces import check_trace

INDEX_MAP = [
    {"type": "None"},
    {"type": "ir.PrimType", "data": {"span": 0, "dtype": "int32"}},
    {"type": "ffi.String", "data": "i0"},
    {"type": "ir.Var", "data": {"span": 0, "ty": 1, "name": 2}},
    {"type": "ffi.Array", "data": [3]},
    {
        "type": "tirx.IndexMap",
        "data": {"initial_indices": 4, "final_indices": 4, "inverse_index_map": 0},
    },
]


def with_index_map(nodes: list[Any], **more: Any) -> str:
    graph = {"root_index": len(nodes) - 1, "nodes": nodes, "metadata": {}, **more}
    text = json.dumps(graph, separators=(",", ":"))
    return trace_of(["TransformLayout", ["b0", text], [0, 1, None, 1], []])


def test_a_plain_index_map_is_trusted() -> None:
    check_trace(with_index_map(INDEX_MAP))


@pytest.mark.parametrize("kind", ["ir.Call", "tirx.CallExtern", "ir.GlobalVar", "ffi.Function", 7])
def test_an_index_map_that_holds_more_than_arithmetic_is_refused(kind: Any) -> None:
    told = refusal(with_index_map([*INDEX_MAP[:-1], {"type": kind, "data": {}}, INDEX_MAP[-1]]))
    assert "TransformLayout" in told and str(kind) in told


@pytest.mark.parametrize(
    "node",
    [
        {"type": "ffi.Array", "data": [5]},
        {"type": "ffi.Array", "data": [True]},
        {"type": "ffi.Array", "data": [-1]},
        {"type": "ir.Var", "data": {"name": 5}},
        {"type": "ir.Var", "data": {"name": "i0"}},
        {"type": "ir.PrimType", "data": {"dtype": "handle"}},
        {"type": "int", "data": "7"},
        {"type": "int", "data": 2**31},
        {"type": "int", "data": True},
        {"type": "ir.Var", "data": {"span": 0, "ty": 0, "name": 2}},
        {"type": "ir.Var", "data": {"span": 0, "ty": 1}},
        {"type": "ir.Var", "data": {"span": 3, "ty": 1, "name": 2}},
        {"type": "ir.PrimType", "data": {"span": 0, "dtype": "uint8"}},
        {"type": "prim.Add", "data": {"span": 0, "ty": 1, "a": 3, "b": 0}},
        {"type": "prim.FloorDiv", "data": {"span": 0, "ty": 1, "a": 3, "b": 3}},
        {"type": "ffi.Array", "data": [0]},
        {
            "type": "tirx.IndexMap",
            "data": {"initial_indices": 0, "final_indices": 4, "inverse_index_map": 0},
        },
        {"type": "ffi.String", "data": "a b"},
        {"type": "None", "data": 1},
        {"type": "None", "more": 1},
        "None",
    ],
)
def test_an_index_map_that_is_malformed_or_refers_ahead_is_refused(node: Any) -> None:
    refusal(with_index_map([*INDEX_MAP[:5], node, INDEX_MAP[-1]]))


@pytest.mark.parametrize("divisor", [0, -4])
def test_an_index_map_that_divides_by_nothing_is_refused(divisor: int) -> None:
    more = [
        {"type": "int", "data": divisor},
        {"type": "ir.IntImm", "data": {"span": 0, "ty": 1, "value": 5}},
        {"type": "prim.FloorDiv", "data": {"span": 0, "ty": 1, "a": 3, "b": 6}},
    ]
    assert "malformed prim.FloorDiv" in refusal(
        with_index_map([*INDEX_MAP[:5], *more, INDEX_MAP[-1]])
    )


def test_an_index_map_that_gives_a_name_twice_is_refused() -> None:
    text = '{"root_index":0,"nodes":[{"type":"ir.Call","type":"None"}],"metadata":{}}'
    told = refusal(trace_of(["TransformLayout", ["b0", text], [0, 1, None, 1], []]))
    assert "not written as TVM writes it" in told
