"""Programs from outside hold what is on the lists, or are refused by what they hold."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunebook.cache.errors import UntrustedProgramError
from tunebook.cache.untrusted.untrusted_programs import NODE_LIMIT, checked_program


def program(*nodes: Any) -> str:
    return json.dumps({"root_index": 0, "nodes": list(nodes), "metadata": {"tvm_version": "0.27"}})


def node(kind: Any, data: Any = None) -> dict[str, Any]:
    return {"type": kind, "data": data}


def attribute(name: str) -> tuple[dict[str, Any], ...]:
    return node("ffi.Map", [1, 1]), node("ffi.String", name)


def test_what_is_on_the_lists_is_written_anew() -> None:
    loop = node("tirx.For", {"span": 0, "kind": 0, "thread_binding": 0, "body": 1})
    nodes = [node("None"), node("ir.Op", "tirx.exp"), *attribute("main")[1:], loop]
    assert json.loads(checked_program(program(*nodes))) == {"root_index": 0, "nodes": nodes}


def test_a_name_that_stands_there_twice_is_read_by_all_as_it_was_checked() -> None:
    text = '{"root_index": 0, "nodes": [{"type": "ffi.Module", "type": "None"}]}'
    assert json.loads(checked_program(text))["nodes"] == [{"type": "None"}]
    assert "ffi.Module" not in checked_program(text)


@pytest.mark.parametrize(
    ("nodes", "complaint"),
    [
        ([node("ffi.Module", "AAAA")], "it holds 'ffi.Module', which is not on the list"),
        ([node("ffi.Function")], "it holds 'ffi.Function', which is not on the list"),
        ([node("tirx.AttrStmt", {})], "it holds 'tirx.AttrStmt', which is not on the list"),
        ([node("ir.EnvFunc", "f")], "it holds 'ir.EnvFunc', which is not on the list"),
        ([node(["None"])], r"it holds \['None'\], which is not on the list"),
        ([node("x" * 1000)], "it holds 'x{99}..., which is not on the list"),
        ([node("ir.Op", "tirx.call_extern")], "it calls 'tirx.call_extern', which is not on the"),
        ([node("ir.Op", "tirx.call_llvm_intrin")], "it calls 'tirx.call_llvm_intrin', which is"),
        ([node("ir.Op", "tirx.tvm_call_packed")], "it calls 'tirx.tvm_call_packed', which is not"),
        ([node("ir.Op", {"name": "tirx.exp"})], "it calls {'name': 'tirx.exp'}, which is not on"),
        (attribute("pragma_import_llvm"), "it has the attribute 'pragma_import_llvm', which is"),
        (attribute("target"), "it has the attribute 'target', which is not on the list"),
        ([node("ffi.Map", [7, 7])], "it has the attribute None, which is not on the list"),
        ([node("ffi.Map", None)], "it has the attribute None, which is not on the list"),
        ([node("ffi.String", "pragma_import_c")], "it holds the text 'pragma_import_c'"),
        ([node("ffi.String", "x" * 1001)], "it holds the text 'x{99}"),
        ([node("ffi.String", 3)], "it holds the text 3"),
        ([node("None"), node("tirx.PrimFunc", {"body": 0})], "its tirx.PrimFunc has no 'body'"),
        ([node("None"), node("ffi.Array", [0])], "its ffi.Array has an empty place"),
        ([1], "it is not JSON of a program"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_anything_else_is_refused_by_name(nodes: Any, complaint: str) -> None:
    with pytest.raises(UntrustedProgramError, match=f"^the program is refused: {complaint}"):
        checked_program(program(*nodes))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"nodes": []}', '{"nodes": 3, "root_index": 0}', "[" * 100_000]
)
def test_what_is_no_program_is_refused(text: str) -> None:
    with pytest.raises(UntrustedProgramError, match="it is not JSON of a program"):
        checked_program(text)


def test_a_program_of_too_many_parts_is_refused() -> None:
    with pytest.raises(UntrustedProgramError, match="200001 parts, more than 200000"):
        checked_program(program(*[node("None")] * (NODE_LIMIT + 1)))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)
KINDS = st.sampled_from(["None", "ffi.Map", "ffi.String", "ir.Op", "ir.DictAttrs", "x"]) | VALUES


@given(st.lists(st.fixed_dictionaries({}, optional={"type": KINDS, "data": VALUES})))
def test_nothing_from_outside_raises_anything_else(nodes: list[Any]) -> None:
    with contextlib.suppress(UntrustedProgramError):
        checked_program(program(*nodes))
