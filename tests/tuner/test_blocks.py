"""The same program out of another model has other names: a trace replays on it all the same."""

from __future__ import annotations

import pytest
import tvm
from near_programs import random_traces, row_sums

from tunebook.cache.misses import MissReason
from tunebook.cache.records import Source
from tunebook.cache.targets import Target
from tunebook.tuner.adaptation import NearTrace, adapt
from tunebook.tuner.blocks import _new_name, _renamed, blocks_in
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.replay import replay


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


@pytest.mark.parametrize(
    ("asked", "present", "renamed"),
    [
        (["a", "root"], ["root", "a"], {}),
        (
            ["lv1_red", "lv2_red"],
            ["lv3_red", "lv4_red"],
            {"lv1_red": "lv3_red", "lv2_red": "lv4_red"},
        ),
        (["lv1_red", "lv2_red"], ["lv2_red", "lv4_red"], {"lv1_red": "lv4_red"}),
        (["x_red", "T_add"], ["y_red", "T_add"], {"x_red": "y_red"}),
        (["x_red"], ["T_add", "y_red"], {"x_red": "y_red"}),
        (["x"], ["y"], {"x": "y"}),
        (["x"], ["y", "z"], {}),
    ],
)
def test_names_that_are_not_there_become_those_that_are(
    asked: list[str], present: list[str], renamed: dict[str, str]
) -> None:
    assert _renamed(asked, present) == renamed


@pytest.mark.parametrize(
    ("name", "new"),
    [("lv1_red", "lv9_red"), ("lv1_red_update", "lv9_red_update"), ("lv1_redo", "lv1_redo")],
)
def test_what_is_made_of_a_block_is_named_after_it(name: str, new: str) -> None:
    assert _new_name(name, {"lv1_red": "lv9_red"}) == new
