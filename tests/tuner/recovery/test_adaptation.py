"""Candidates made from the traces of near workloads."""

from __future__ import annotations

import json
import logging
from typing import Any

import numpy as np
import pytest
import tvm
from near_programs import (
    A72,
    A76,
    conv,
    int8_dense,
    matmul,
    random_traces,
    scaled,
    with_tiles,
)
from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

from tunebook.cache.misses import MissReason
from tunebook.cache.records import Candidate, Source
from tunebook.cache.targets import Target
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.llvm_targets import tvm_target
from tunebook.tuner.recovery.adaptation import NearTrace, adapt
from tunebook.tuner.splitting.program import buffers_of
from tunebook.tuner.traces.replay import replay

TILES_OF_128 = ([4, 4, 2, 4], [2, 2, 4, 8], [16, 8])


def adapted(
    tir: str, target: str, reason: MissReason, *traces: str, limit: int = 20
) -> list[Candidate]:
    near = [NearTrace(trace, reason, f"record {n}") for n, trace in enumerate(traces)]
    return adapt(tir, target, near, source=Source.MIGRATION, seed=3, limit=limit)


def by_way(candidates: list[Candidate]) -> dict[str, Candidate]:
    return {one.origin.split(", ", 1)[1]: one for one in candidates}


def assert_replays(tir: str, candidates: list[Candidate]) -> None:
    for one in candidates:
        assert module_hash(replay(tvm.ir.load_json(tir), one.trace).mod) == one.module_hash


def outputs(module: Any, target: str) -> list[Any]:
    """What a module computes from inputs that are the same each time."""
    lowered = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(module)
    kernel = tvm.tirx.build(lowered, target=tvm_target(target))["main"]
    generator = np.random.default_rng(7)
    buffers = buffers_of(module)
    arrays = [generator.uniform(-1, 1, one.shape).astype(one.dtype) for one in buffers]
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    kernel(*tensors)
    return [one.numpy() for one, spec in zip(tensors, buffers, strict=True) if spec.output]


def assert_computes_the_same(tir: str, target: str, candidates: list[Candidate]) -> None:
    module = tvm.ir.load_json(tir)
    expected = outputs(module, target)
    for one in candidates:
        found = outputs(replay(module, one.trace).mod, target)
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4, err_msg=one.origin)


@pytest.fixture(scope="module")
def target(host: Target) -> str:
    return str(host)


@pytest.fixture(scope="module")
def of_128(target: str) -> str:
    """A trace of a matrix product of 128 by 128 by 128."""
    (trace,) = random_traces(matmul(128, 128, 128), target, 1)
    return with_tiles(trace, *TILES_OF_128)


# --- another shape -------------------------------------------------------------------------------


def test_tiles_that_fit_stay_unchanged(target: str, of_128: str) -> None:
    tir = matmul(256, 128, 128)
    ways = by_way(adapted(tir, target, MissReason.OTHER_SHAPE, of_128))
    assert_replays(tir, list(ways.values()))
    assert {"unchanged", "re-sampled"} <= set(ways)
    assert tiles_of(ways["unchanged"]) == [[8, 4, 2, 4], *TILES_OF_128[1:]]


def test_factors_that_no_longer_divide_become_the_nearest_ones(target: str, of_128: str) -> None:
    tir = matmul(126, 126, 126)
    ways = by_way(adapted(tir, target, MissReason.OTHER_SHAPE, of_128))
    assert tiles_of(ways["nearest factors"]) == [[3, 3, 2, 7], [2, 3, 3, 7], [14, 9]]


def test_a_trace_of_which_nothing_would_stay_is_not_offered_as_unchanged(
    target: str, of_128: str
) -> None:
    """TVM would make each factor that does not divide the whole extent, without a word."""
    ways = by_way(adapted(matmul(127, 127, 127), target, MissReason.OTHER_SHAPE, of_128))
    assert "unchanged" not in ways
    assert {"nearest factors", "padded", "re-sampled"} <= set(ways)


def test_prime_extents_are_padded_so_that_the_tiles_fit(target: str, of_128: str) -> None:
    tir = matmul(127, 127, 127)
    padded = by_way(adapted(tir, target, MissReason.OTHER_SHAPE, of_128))["padded"]
    assert tiles_of(padded) == [list(tile) for tile in TILES_OF_128]
    assert_computes_the_same(tir, target, [padded])


def test_a_padded_product_goes_into_the_sum_that_follows(target: str) -> None:
    (trace,) = random_traces(matmul(64, 64, 64, add=True), target, 1)
    trace = with_tiles(trace, [4, 2, 2, 4], [2, 2, 1, 16], [16, 4])
    tir = matmul(61, 61, 61, add=True)
    padded = by_way(adapted(tir, target, MissReason.OTHER_SHAPE, trace))["padded"]
    assert_computes_the_same(tir, target, [padded])


def test_a_convolution_cannot_be_padded(target: str) -> None:
    """TVM pads only where every index is a plain variable."""
    (trace,) = random_traces(conv(16), target, 1)
    ways = by_way(adapted(conv(13), target, MissReason.OTHER_SHAPE, trace))
    assert "padded" not in ways
    assert "nearest factors" in ways


@pytest.mark.parametrize(
    ("stored", "wanted", "reason"),
    [
        (matmul(128, 128, 128), matmul(127, 128, 64), MissReason.OTHER_SHAPE),
        (matmul(64, 64, 64, add=True), matmul(62, 48, 64, add=True), MissReason.OTHER_SHAPE),
        (conv(14), conv(14, batch=2), MissReason.OTHER_SHAPE),
        (conv(14), conv(16), MissReason.OTHER_SHAPE),
        (conv(14), conv(14, stride=2), MissReason.OTHER_ATTRIBUTES),
        (conv(14), conv(14, residual=True), MissReason.OTHER_FUSION),
        (scaled(48, 0.5), scaled(48, 0.505), MissReason.OTHER_CONSTANTS),
        (matmul(32, 32, 32), matmul(32, 32, 32), MissReason.UNVERIFIED),
        (matmul(32, 32, 32), matmul(32, 32, 32), MissReason.OTHER_TARGET),
    ],
    ids=lambda value: value.value if isinstance(value, MissReason) else "",
)
def test_every_way_replays_and_computes_what_the_program_does(
    target: str, stored: str, wanted: str, reason: MissReason
) -> None:
    (trace,) = random_traces(stored, target, 1)
    candidates = adapted(wanted, target, reason, trace)
    assert candidates
    assert_replays(wanted, candidates)
    assert_computes_the_same(wanted, target, candidates)


# --- the same program ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reason",
    [MissReason.EQUIVALENT_TARGET, MissReason.OTHER_CONSTANTS, MissReason.UNVERIFIED],
)
def test_for_the_same_program_the_trace_is_taken_as_recorded(
    target: str, of_128: str, reason: MissReason
) -> None:
    tir = matmul(128, 128, 128)
    (only,) = adapted(tir, target, reason, of_128)
    assert only.origin == "record 0, as recorded"
    assert only.source is Source.MIGRATION
    assert only.module_hash == module_hash(replay(tvm.ir.load_json(tir), of_128).mod)


def test_a_trace_of_more_cores_gets_parallel_loops_for_fewer() -> None:
    tir = matmul(128, 128, 128)
    many, few = (A72.replace("cores=4", f"cores={cores}") for cores in (4, 1))
    (trace,) = random_traces(tir, many, 1)
    trace = with_tiles(trace, [32, 2, 2, 1], *TILES_OF_128[1:])
    ways = by_way(adapted(tir, few, MissReason.OTHER_TARGET, trace))
    assert set(ways) == {"as recorded", "unchanged"}


# --- tensor intrinsics ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def with_sdot() -> str:
    traces = random_traces(int8_dense(64), A76, 8)
    return next(one for one in traces if "sdot" in one)


def test_a_cpu_without_the_instruction_gets_its_own_or_none(with_sdot: str) -> None:
    tir = int8_dense(64)
    ways = by_way(adapted(tir, A72, MissReason.OTHER_TARGET, with_sdot))
    assert set(ways) == {"re-tensorised", "untensorised"}
    assert not [way for way, one in ways.items() if "sdot" in one.trace]
    assert "dot_4x4_i8i8s32_neon" in ways["re-tensorised"].trace
    assert "ensorize" not in ways["untensorised"].trace
    assert "Blockize" not in ways["untensorised"].trace
    assert_replays(tir, list(ways.values()))


def test_a_cpu_with_a_better_instruction_gets_it_too(with_sdot: str) -> None:
    with_neon = with_sdot.replace("sdot", "neon")
    ways = by_way(adapted(int8_dense(64), A76, MissReason.OTHER_TARGET, with_neon))
    assert "dot_4x4_i8i8s32_sdot" in ways["re-tensorised"].trace
    assert "dot_4x4_i8i8s32_neon" in ways["as recorded"].trace


def test_an_extent_that_the_instruction_does_not_divide_gets_no_instruction(
    with_sdot: str,
) -> None:
    tir = int8_dense(62)
    ways = by_way(adapted(tir, A76, MissReason.OTHER_SHAPE, with_sdot))
    assert "ensorize" not in ways["untensorised"].trace
    assert_replays(tir, list(ways.values()))


def test_what_becomes_of_an_instruction_computes_the_same(target: str, with_sdot: str) -> None:
    """Where this machine lacks it, too: it is an Arm instruction, or all agree."""
    tir = int8_dense(64)
    ways = by_way(adapted(tir, target, MissReason.OTHER_TARGET, with_sdot))
    assert_computes_the_same(tir, target, [ways["untensorised"]])


# --- several traces, and bad ones ----------------------------------------------------------------


def test_all_ways_of_the_nearest_trace_come_first_and_no_module_twice(target: str) -> None:
    traces = random_traces(matmul(128, 128, 128), target, 3, seed=5)
    candidates = adapted(matmul(120, 120, 120), target, MissReason.OTHER_SHAPE, *traces)
    origins = [one.origin.split(",")[0] for one in candidates]
    assert origins == sorted(origins)
    assert len(set(origins)) == 3
    assert len({one.module_hash for one in candidates}) == len(candidates)


def test_no_more_than_the_limit_are_given(target: str, of_128: str) -> None:
    tir = matmul(96, 96, 96)
    assert len(adapted(tir, target, MissReason.OTHER_SHAPE, of_128, limit=2)) == 2
    assert adapted(tir, target, MissReason.OTHER_SHAPE, of_128, limit=0) == []


def test_the_same_seed_gives_the_same_candidates(target: str, of_128: str) -> None:
    tir = matmul(96, 96, 96)
    first, again = (adapted(tir, target, MissReason.OTHER_SHAPE, of_128) for _ in range(2))
    assert first == again


def test_a_trace_of_something_else_is_left_out(target: str, of_128: str) -> None:
    (foreign,) = random_traces(scaled(32, 0.5), target, 1)
    tir = matmul(96, 96, 96)
    candidates = adapted(tir, target, MissReason.OTHER_SHAPE, foreign, of_128)
    assert candidates
    assert {one.origin.split(",")[0] for one in candidates} == {"record 1"}


@pytest.mark.parametrize("reason", MissReason)
def test_a_hostile_trace_is_left_out_and_named(
    target: str, of_128: str, reason: MissReason, caplog: pytest.LogCaptureFixture
) -> None:
    instructions, decisions = json.loads(of_128)
    evil = ["Annotate", [instructions[0][3][0], '"module asm"'], ["pragma_import_llvm"], []]
    hostile = json.dumps([[instructions[0], evil, *instructions[1:]], decisions])
    with caplog.at_level(logging.WARNING):
        assert adapted(matmul(128, 128, 128), target, reason, hostile) == []
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("record 0 is left out") and "pragma_import_llvm" in said


@pytest.mark.parametrize("reason", [MissReason.OTHER_SHAPE, MissReason.OTHER_TARGET])
def test_a_damaged_trace_costs_no_other_its_candidates(
    target: str, of_128: str, reason: MissReason, caplog: pytest.LogCaptureFixture
) -> None:
    tir = matmul(256, 128, 128)
    damaged: Any = of_128.encode()  # as SQLite gives back what was stored as a BLOB
    with caplog.at_level(logging.WARNING):
        candidates = adapted(tir, target, reason, damaged, of_128)
    assert candidates
    assert {one.origin.split(",")[0] for one in candidates} == {"record 1"}
    (said,) = [record.getMessage() for record in caplog.records]
    assert said == "record 0 is left out: the trace is refused: it is bytes, no text"


def tiles_of(candidate: Candidate) -> list[list[int]]:
    instructions, decisions = json.loads(candidate.trace)
    return [value for n, value in decisions if instructions[n][0] == "SamplePerfectTile"]
