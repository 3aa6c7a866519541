"""Only listed instructions, annotations and values of a trace are ever replayed."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from cache_samples import EVIL_TRACE, real_traces
from hypothesis import given
from hypothesis import strategies as st
from trace_samples import refusal, trace_of

from tunebook.cache.errors import UntrustedTraceError
from tunebook.cache.untrusted.traces import (
    BLOCKS_LIMIT,
    INSTRUCTIONS,
    LENGTH_LIMIT,
    LOOPS_LIMIT,
    SIZE_LIMIT,
    check_trace,
)


@pytest.mark.parametrize("name", sorted(real_traces()))
def test_a_trace_that_the_search_wrote_is_trusted(name: str) -> None:
    check_trace(real_traces()[name])


@pytest.mark.parametrize("value", [b"[[], []]", b"\xff", None, 7, 1.5])
def test_what_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(UntrustedTraceError) as raised:
        check_trace(value)
    told = str(raised.value)
    assert told == f"the trace is refused: it is {type(value).__name__}, no text"


def test_an_import_of_llvm_is_refused_by_name() -> None:
    assert "pragma_import_llvm" in refusal(EVIL_TRACE)


@pytest.mark.parametrize(
    "key", ["pragma_import_c", "pragma_import_llvm", "software_pipeline_stage", "", 7, None, {}]
)
@pytest.mark.parametrize("kind", ["Annotate", "Unannotate"])
def test_an_annotation_that_is_not_listed_is_refused_by_name(kind: str, key: Any) -> None:
    told = refusal(trace_of([kind, ["b0", 1], [key], []]))
    assert kind in told and repr(key) in told


# What GPUs need, what forges dtypes and accesses, and what ends the process that replays it: a
# buffer that is not there (ReIndex), a part of a tile that is not there (SamplePartitionedTile).
@pytest.mark.parametrize(
    "kind",
    [
        "UnsafeSetDType",
        "UnsafeHideBufferAccess",
        "Bind",
        "SetScope",
        "ReIndex",
        "SamplePartitionedTile",
        "StorageAlign",
        "TransformBlockLayout",
        "Unroll",
        "Nonsense",
        "",
        3,
        None,
        [],
        {},
    ],
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
        ["Fuse", ["l1"], [1], ["b1"]],
        ["Fuse", ["b1"], [1], ["l2"]],
        ["Fuse", [], [1], ["l2"]],
        ["Fuse", [{"type": "Call"}], [1], ["l2"]],
        ["Fuse", ['{"type": "Call"}'], [1], ["l2"]],
        ["Fuse", [[[["l1"]]]], [1], ["l2"]],
        ["Annotate", ["b0", {"pragma_import_llvm": "x"}], ["schedule_rule"], []],
        ["Annotate", ["b0", '"module asm \\"x\\""'], ["schedule_rule"], []],
        ["Annotate", ["b0", "it's"], ["schedule_rule"], []],
        ["Annotate", ["b0", "\ud800"], ["schedule_rule"], []],
        ["Annotate", ["b0", 1], ["schedule_rule", "pragma_import_llvm"], []],
        ["Annotate", ["b0", 1], [["pragma_import_llvm"]], []],
        ["Tensorize", ["b0"], ["dot(); evil()"], []],
        ["Tensorize", ["b0"], [{"name": "dot"}], []],
        ["TransformLayout", ["b0"], [0, 1], []],
        ["TransformLayout", ["b0", 7], [0, 1, None, 1], []],
        ["TransformLayout", ["b0", "not json"], [0, 1, None, 1], []],
        ["TransformLayout", ["b0", "{not json}"], [0, 1, None, 1], []],
    ],
)
def test_a_malformed_instruction_is_refused(instruction: Any) -> None:
    assert "instruction 1" in refusal(trace_of(instruction))


# Each of these ended the process that replayed it, kept it busy for ever, or made a kernel that
# writes beyond its buffers, with TVM 0.27.
@pytest.mark.parametrize(
    "instruction",
    [
        ["GetSBlock", [], [None, "main"], ["b1"]],
        ["GetSBlock", [], ["matmul", None], ["b1"]],
        ["GetLoops", [None], [], ["l1"]],
        ["GetLoops", ["None"], [], ["l1"]],
        ["Annotate", [None, 32], ["meta_schedule.parallel"], []],
        ["Annotate", ["None", 32], ["meta_schedule.parallel"], []],
        ["Unannotate", [None], ["schedule_rule"], []],
        ["SampleComputeLocation", ["b0"], [], ["l1"]],
        ["SampleCategorical", [], [[8, 0, 4], [-1, -1.0, -1.0]], ["v1"]],
        ["SamplePerfectTile", ["l1"], [2, 0], ["v1", "v2"]],
        ["SamplePerfectTile", ["l1"], [1000000000, 64], ["v1", "v2"]],
        ["TransformLayout", ["b0", "{}"], [3, 4096, None, True], []],
        ["TransformLayout", ["b0", "{}"], [-1, 0, None, True], []],
        ["Split", ["l1", "None", 4], [True, True], ["l2", "l3"]],
        ["PadEinsum", ["b0"], [[1000000000, 1, 1]], []],
        ["Annotate", ["l1", 1000000000], ["pragma_auto_unroll_max_step"], []],
    ],
)
def test_what_does_harm_though_it_is_well_formed_is_refused(instruction: Any) -> None:
    assert f"instruction 1 ({instruction[0]})" in refusal(trace_of(instruction))


@pytest.mark.parametrize(
    "instruction",
    [
        ["Unannotate", ["l2"], ["schedule_rule"], []],
        ["Split", ["l2", "None", 4], [True, False], ["l3", "l4"]],
        ["Fuse", ["l1", "l2"], [1], ["l3"]],
        ["Parallel", ["l2"], [], []],
    ],
)
def test_a_location_to_compute_at_is_taken_for_no_loop(instruction: Any) -> None:
    """TVM's location of a block that stays where it is is no loop, and it does not look."""
    location = ["SampleComputeLocation", ["b0"], [], ["l2"]]
    told = refusal(trace_of(location, instruction, decisions=[[1, -1]]))
    assert f"instruction 2 ({instruction[0]}) takes the location l2 for a loop" in told
    check_trace(trace_of(location, ["ComputeAt", ["b0", "l2"], [1, -1], []], decisions=[[1, -1]]))


TILE = ["SamplePerfectTile", ["l1"], [2, 64], ["v1", "v2"]]
CHOICE = ["SampleCategorical", [], [[0, 16], [0.5, 0.5]], ["v1"]]
PLACE = ["SampleComputeLocation", ["b0"], [], ["l2"]]


@pytest.mark.parametrize(
    ("instruction", "decision"),
    [
        *((TILE, one) for one in ([8, 16], [1, 1], [-1, 1])),
        *((CHOICE, one) for one in (0, 1)),
        *((PLACE, one) for one in (-2, -1, 0, 7)),
    ],
)
def test_a_decision_that_fits_is_trusted(instruction: Any, decision: Any) -> None:
    check_trace(trace_of(instruction, decisions=[[1, decision]]))


@pytest.mark.parametrize(
    ("instruction", "decision"),
    [
        # A factor of 0 divides by it, in TVM and outside of any exception.
        *((TILE, one) for one in ([8, 0], [8, -2], [-2, 1], [8], [8, 4, 4], [], 8, None)),
        *((TILE, one) for one in ([8, 2**31], [8, 2**62], [8, 2.0], [8, True], [8, "2"], [[8], 2])),
        *((CHOICE, one) for one in (2, -1, 2**62, True, 0.0, None, "0", [0], {})),
        *((PLACE, one) for one in (-3, 2**62, True, 0.0, None, "0", [0], {})),
    ],
)
def test_a_decision_that_does_not_fit_is_refused(instruction: Any, decision: Any) -> None:
    told = refusal(trace_of(instruction, decisions=[[1, decision]]))
    assert f"instruction 1 ({instruction[0]}) has the decision" in told


@pytest.mark.parametrize("instruction", [TILE, CHOICE, PLACE], ids=lambda one: str(one[0]))
def test_what_is_sampled_is_decided_once(instruction: Any) -> None:
    assert "has no decision" in refusal(trace_of(instruction))
    decision = {"SamplePerfectTile": [8, 16]}.get(instruction[0], 0)
    twice = [[1, decision], [1, decision]]
    assert "for which nothing asks" in refusal(trace_of(instruction, decisions=twice))


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
        [True, 1],
        [2**62, 1],
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


def test_a_hundred_megabytes_are_refused_unread() -> None:
    """What JSON makes of such a text would take a gigabyte."""
    huge = "[[" + "[]," * (100 * 1024 * 1024 // 3)
    tracemalloc.start()
    refusal(huge)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1024 * 1024


@pytest.mark.parametrize(
    ("made", "instruction", "limit"),
    [
        ("instructions", ["GetLoops", ["b0"], [], []], LENGTH_LIMIT),
        ("loops", ["Split", ["l0", "None"], [True, False], ["l0"]], LOOPS_LIMIT),
        ("blocks", ["CacheRead", ["b0", []], [0, "global"], ["b0"]], BLOCKS_LIMIT),
    ],
)
def test_what_would_take_minutes_to_replay_is_refused(
    made: str, instruction: Any, limit: int
) -> None:
    check_trace(json.dumps([[instruction] * limit, []]))
    told = refusal(json.dumps([[instruction] * (limit + 1), []]))
    assert f"{limit + 1} {made}, more than {limit}" in told


def test_an_empty_trace_is_trusted() -> None:
    check_trace("[[], []]")


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


WRONG = st.sampled_from(
    [
        None,
        True,
        False,
        1.5,
        -1,
        0,
        2**31,
        2**62,
        10**30,
        "",
        "x",
        "b0",
        "l1",
        "None",
        '"x"',
        [],
        {},
    ]
)


@given(st.sampled_from(sorted(real_traces())), st.integers(0, 10_000), WRONG)
def test_a_wrong_type_at_any_position_of_a_real_trace_is_trusted_or_refused_in_a_line(
    name: str, place: int, wrong: Any
) -> None:
    trace = json.loads(real_traces()[name])
    *_, (holder, position) = positions(trace, place)
    holder[position] = wrong
    try:
        check_trace(json.dumps(trace))
    except UntrustedTraceError as error:
        assert "\n" not in str(error)


def positions(value: list[Any], limit: int) -> list[tuple[list[Any], int]]:
    """The first so many places of a nested list where something could be put, the list's own."""
    found: list[tuple[list[Any], int]] = []
    pending = [value]
    while pending and len(found) <= limit:
        holder = pending.pop()
        for position, one in enumerate(holder):
            found.append((holder, position))
            if isinstance(one, list):
                pending.append(one)
    return found[: limit + 1]


@pytest.mark.parametrize("kind", sorted(set(INSTRUCTIONS) - {"EnterPostproc"}))
def test_every_listed_instruction_is_refused_without_its_parts(kind: str) -> None:
    assert f"instruction 1 ({kind})" in refusal(trace_of([kind, [], [], []]))


def test_the_mark_of_what_postprocessors_did_has_no_parts() -> None:
    check_trace(trace_of(["EnterPostproc", [], [], []]))
