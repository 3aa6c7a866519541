"""Tile sizes are read off a trace's text."""

from __future__ import annotations

import json

import pytest
from cache_samples import EVIL_TRACE, real_traces

from tunebook.cache.errors import UntrustedTraceError
from tunebook.cache.untrusted.tile_sizes import TileSizes, tile_sizes


def trace(*instructions: list[object], decisions: list[list[object]]) -> str:
    return json.dumps([instructions, decisions])


def test_a_tile_is_told_with_its_block_the_place_of_its_loop_and_its_factors() -> None:
    text = trace(
        ["GetSBlock", [], ["conv", "main"], ["b0"]],
        ["GetLoops", ["b0"], [], ["l1", "l2"]],
        ["SamplePerfectTile", ["l2"], [2, 64], ["v3", "v4"]],
        ["SamplePerfectTile", ["l1"], [3, 64], ["v5", "v6", "v7"]],
        decisions=[[2, [8, 4]], [3, [2, 2, 1]]],
    )
    assert tile_sizes(text) == (TileSizes("conv", 1, (8, 4)), TileSizes("conv", 0, (2, 2, 1)))


def test_a_block_that_another_instruction_gave_has_no_name() -> None:
    text = trace(
        ["GetSBlock", [], ["conv", "main"], ["b0"]],
        ["CacheWrite", ["b0", []], [0, "global"], ["b1"]],
        ["GetLoops", ["b1"], [], ["l2"]],
        ["SamplePerfectTile", ["l2"], [2, 64], ["v3", "v4"]],
        decisions=[[3, [8, 4]]],
    )
    assert tile_sizes(text) == (TileSizes("", 0, (8, 4)),)


def test_every_tile_of_real_traces_is_told() -> None:
    tiles: list[list[int]] = []
    for text in real_traces().values():
        instructions, decisions = json.loads(text)
        sampling = {n for n, one in enumerate(instructions) if one[0] == "SamplePerfectTile"}
        sampled = [value for number, value in decisions if number in sampling]
        assert [list(one.factors) for one in tile_sizes(text)] == sampled
        tiles += sampled
    assert tiles


def test_a_trace_that_is_refused_is_not_read() -> None:
    with pytest.raises(UntrustedTraceError):
        tile_sizes(EVIL_TRACE)
