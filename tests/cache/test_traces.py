"""Only listed instructions, annotations and values of a trace are ever replayed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cache_samples import EVIL_TRACE, real_traces
from hypothesis import given
from hypothesis import strategies as st

from tunebook.cache.errors import UntrustedTraceError
from tunebook.cache.traces import (
    INSTRUCTIONS,
    SIZE_LIMIT,
    _check_instruction,
    check_trace,
    passes_at_a_glance,
)

BLOCK = ["GetSBlock", [], ["matmul", "main"], ["b0"]]
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


def refusal(trace: str) -> str:
    with pytest.raises(UntrustedTraceError) as error:
        check_trace(trace)
    assert "\n" not in str(error.value)
    return str(error.value)


def trace_of(*instructions: Any, decisions: Any = ()) -> str:
    return json.dumps([[BLOCK, *instructions], list(decisions)])


def with_index_map(nodes: list[Any], **more: Any) -> str:
    graph = {"root_index": len(nodes) - 1, "nodes": nodes, "metadata": {}, **more}
    text = json.dumps(graph, separators=(",", ":"))
    return trace_of(["TransformLayout", ["b0", text], [0, 1, None, 1], []])


@pytest.mark.parametrize("name", sorted(real_traces()))
def test_a_trace_that_the_search_wrote_is_trusted(name: str) -> None:
    check_trace(real_traces()[name])


def test_an_import_of_llvm_is_refused_by_name() -> None:
    assert "pragma_import_llvm" in refusal(EVIL_TRACE)


@pytest.mark.parametrize(
    "key", ["pragma_import_c", "pragma_import_llvm", "software_pipeline_stage", "", 7, None, {}]
)
@pytest.mark.parametrize("kind", ["Annotate", "Unannotate"])
def test_an_annotation_that_is_not_listed_is_refused_by_name(kind: str, key: Any) -> None:
    told = refusal(trace_of([kind, ["b0", 1], [key], []]))
    assert kind in told and repr(key) in told


@pytest.mark.parametrize(
    "kind", ["UnsafeSetDType", "UnsafeHideBufferAccess", "Bind", "SetScope", "Nonsense", "", 3, []]
)
def test_an_instruction_that_is_not_listed_is_refused_by_name(kind: Any) -> None:
    assert repr(kind) in refusal(trace_of([kind, ["b0"], [], []]))


@pytest.mark.parametrize(
    "instruction",
    [
        None,
        "Annotate",
        ["Annotate"],
        ["Fuse", "l1", [], []],
        ["Fuse", ["l1"], {}, []],
        ["Fuse", ["l1"], [], "l2"],
        ["Fuse", ["l1"], [1], [7]],
        ["Fuse", ["l1"], [1], ["l1 + 1"]],
        ["Fuse", [{"type": "Call"}], [1], ["l2"]],
        ["Fuse", ['{"type": "Call"}'], [1], ["l2"]],
        ["Fuse", [[[["l1"]]]], [1], ["l2"]],
        ["Annotate", ["b0", {"pragma_import_llvm": "x"}], ["schedule_rule"], []],
        ["Annotate", ["b0", '"module asm \\"x\\""'], ["schedule_rule"], []],
        ["Annotate", ["b0", 1], ["schedule_rule", "pragma_import_llvm"], []],
        ["Annotate", ["b0", 1], [["pragma_import_llvm"]], []],
        ["Tensorize", ["b0"], ["dot(); evil()"], []],
        ["Tensorize", ["b0"], [{"name": "dot"}], []],
        ["Split", ["l1", 10**30], [True], ["l2"]],
        ["TransformLayout", ["b0"], [0, 1], []],
        ["TransformLayout", ["b0", 7], [0, 1], []],
        ["TransformLayout", ["b0", "not json"], [0, 1], []],
    ],
)
def test_a_malformed_instruction_is_refused(instruction: Any) -> None:
    assert "instruction 1" in refusal(trace_of(instruction))


@pytest.mark.parametrize(
    "decision",
    [
        None,
        3,
        [],
        [0],
        [0, 1, 2],
        [1, 1],
        [-1, 1],
        ["0", 1],
        [0, "1"],
        [0, [1, "x"]],
        [0, 1.5],
        [0, {"a": 1}],
        [0, [[1]]],
    ],
)
def test_a_malformed_decision_is_refused(decision: Any) -> None:
    assert "decision" in refusal(trace_of(decisions=[decision]))


@pytest.mark.parametrize(
    "trace",
    [
        "",
        "null",
        "{}",
        "[]",
        "[[], [], []]",
        "[[], {}]",
        "[{}, []]",
        "\ud800",
        "[" * 100_000,
        "[[], [[0, NaN]]]",
        "[[], [[0, Infinity]]]",
        "[[], [[0, " + "9" * 10_000 + "]]]",
        "[[],[]]x",
    ],
)
def test_what_is_no_trace_is_refused(trace: str) -> None:
    refusal(trace)


def test_a_trace_over_the_size_limit_is_refused_unread() -> None:
    assert str(SIZE_LIMIT) in refusal("[" + " " * SIZE_LIMIT)


def test_an_empty_trace_is_trusted() -> None:
    check_trace("[[], []]")


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
        {"type": "ffi.String", "data": "a b"},
        {"type": "None", "data": 1},
        {"type": "None", "more": 1},
        "None",
    ],
)
def test_an_index_map_that_is_malformed_or_refers_ahead_is_refused(node: Any) -> None:
    refusal(with_index_map([*INDEX_MAP[:5], node, INDEX_MAP[-1]]))


def test_an_index_map_that_gives_a_name_twice_is_refused() -> None:
    text = '{"root_index":0,"nodes":[{"type":"ir.Call","type":"None"}],"metadata":{}}'
    told = refusal(trace_of(["TransformLayout", ["b0", text], [0, 1, None, 1], []]))
    assert "not written as TVM writes it" in told


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=20,
)


@given(st.one_of(st.text(), JSON.map(json.dumps), st.lists(JSON).map(lambda it: trace_of(*it))))
def test_whatever_comes_is_trusted_or_refused_but_nothing_else(trace: str) -> None:
    try:
        check_trace(trace)
    except UntrustedTraceError as error:
        assert "\n" not in str(error)


@given(st.sampled_from(sorted(real_traces())), st.integers(0, 10_000), st.randoms())
def test_one_forbidden_annotation_anywhere_in_a_real_trace_is_found(
    name: str, place: int, chance: Any
) -> None:
    instructions, decisions = json.loads(real_traces()[name])
    key = chance.choice(["pragma_import_llvm", "pragma_import_c"])
    instructions.insert(place % (len(instructions) + 1), ["Annotate", ["b0", '"x"'], [key], []])
    assert key in refusal(json.dumps([instructions, decisions]))


PARTS = st.lists(
    st.sampled_from(
        ["b0", "l1", "v2", "None", '"SSRSRS"', "main", "schedule_rule", "pragma_import_c", "x y"]
    )
    | st.none()
    | st.integers()
    | st.floats()
    | st.lists(st.integers(), max_size=2)
    | st.just({}),
    max_size=2,
)
INSTRUCTION = st.tuples(
    st.sampled_from([*sorted(INSTRUCTIONS), "Bind", "UnsafeSetDType"]) | st.none(),
    PARTS,
    PARTS,
    PARTS,
).map(list)


@given(st.lists(INSTRUCTION | JSON, min_size=1, max_size=3))
def test_what_passes_at_a_glance_passes_the_careful_check(instructions: list[Any]) -> None:
    if passes_at_a_glance(instructions):
        for number, instruction in enumerate(instructions):
            _check_instruction(number, instruction)


@pytest.mark.parametrize("name", sorted(real_traces()))
def test_real_instructions_without_layouts_pass_at_a_glance(name: str) -> None:
    instructions, _ = json.loads(real_traces()[name])
    flat = [one for one in instructions if one[0] != "TransformLayout"]
    assert passes_at_a_glance(flat)
