"""The same program out of another model has other names: a trace replays on it all the same."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import pytest
import tvm
from near_programs import random_traces, row_sums
from tvm import te

from tunebook.cache.misses import MissReason
from tunebook.cache.records import Source
from tunebook.cache.targets import Target
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.recovery.adaptation import NearTrace, adapt
from tunebook.tuner.traces.blocks import blocks_in, with_names_of
from tunebook.tuner.traces.replay import replay


def test_blocks_are_given_in_the_order_of_the_program() -> None:
    program = tvm.ir.load_json(row_sums(8, "lv7"))
    assert [one.name_hint for one in blocks_in(program["main"].body)] == [
        "root",
        "lv7_red",
        "T_divide",
    ]


@pytest.mark.parametrize("name", ["lv294", "x"])
def test_a_trace_replays_on_the_same_program_under_other_names(name: str, host: Target) -> None:
    recorded = tvm.ir.load_json(row_sums(64, "lv7"))
    other = tvm.ir.load_json(row_sums(64, name))
    assert module_hash(other) == module_hash(recorded)
    traces = random_traces(row_sums(64, "lv7"), str(host), 6)
    assert any('"lv7_red_' in trace for trace in traces)
    for trace in traces:
        expected = module_hash(replay(recorded, trace).mod)
        assert module_hash(replay(other, trace).mod) == expected


def test_a_trace_is_adapted_to_a_program_under_other_names(host: Target) -> None:
    traces = random_traces(row_sums(64, "lv7"), str(host), 3)
    near = [NearTrace(trace, MissReason.OTHER_SHAPE, "a record") for trace in traces]
    tir = row_sums(96, "lv294")
    assert adapt(tir, str(host), near, source=Source.MIGRATION, seed=1, limit=4)


def program(*names: str) -> Any:
    """A program with blocks of these names, one after the other."""

    def block(source: Any, name: str) -> Any:
        return te.compute((4,), lambda i: source[i] + 1.0, name=name)

    data = te.placeholder((4,))
    return tvm.IRModule({"main": te.create_prim_func([data, reduce(block, names, data)])})


def asking_for(*names: str) -> list[list[Any]]:
    return [["GetSBlock", [], [name, "main"], [f"b{n}"]] for n, name in enumerate(names)]


def names_asked_for(instructions: Sequence[list[Any]]) -> list[str]:
    return [attributes[0] for kind, _, attributes, _ in instructions if kind == "GetSBlock"]


@pytest.mark.parametrize(
    ("asked", "present", "found"),
    [
        (["a", "root"], ["a"], ["a", "root"]),
        (["lv1_red", "lv2_red"], ["lv3_red", "lv4_red"], ["lv3_red", "lv4_red"]),
        (["lv1_red", "lv2_red"], ["lv2_red", "lv4_red"], ["lv4_red", "lv2_red"]),
        (["x_red", "T_add"], ["y_red", "T_add"], ["y_red", "T_add"]),
        (["x_red"], ["T_add", "y_red"], ["y_red"]),
        (["x", "root"], ["y"], ["y", "root"]),
        (["x", "root"], ["y", "z"], ["x", "root"]),
    ],
)
def test_names_that_are_not_there_become_those_that_are(
    asked: list[str], present: list[str], found: list[str]
) -> None:
    named = with_names_of(program(*present), asking_for(*asked))
    assert names_asked_for(named) == found


@pytest.mark.parametrize(
    ("name", "new"),
    [("lv1_red", "lv9_red"), ("lv1_red_update", "lv9_red_update"), ("lv1_redo", "lv1_redo")],
)
def test_what_postprocessors_make_of_a_block_is_named_after_it(name: str, new: str) -> None:
    trace = [*asking_for("lv1_red"), ["EnterPostproc", [], [], []], *asking_for(name)]
    assert names_asked_for(with_names_of(program("lv9_red"), trace)) == ["lv9_red", new]
