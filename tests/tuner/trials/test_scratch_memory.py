"""A schedule may copy what it computes with, but not fill a board's memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tvm
from near_programs import conv, matmul, random_traces

from tunebook.cache.records import ErrorClass
from tunebook.cache.targets import Target
from tunebook.tuner.traces.replay import replay
from tunebook.tuner.trials.kernel_build import build
from tunebook.tuner.trials.scratch_memory import takes_too_much
from tunebook.tuner.trials.trials import BuildFailure, BuildJob, BuildRequest

# Each padding is small; together they grow each of the three axes to tens of thousands.
PADDED = [["PadEinsum", ["b0"], [[999 - number] * 3], []] for number in range(50)]
GREEDY = json.dumps([[["GetSBlock", [], ["T_matmul_NN", "main"], ["b0"]], *PADDED], []])


@pytest.mark.parametrize("tir", [matmul(96, 96, 96, add=True), conv(14)], ids=["matmul", "conv"])
def test_what_the_search_writes_takes_little(tir: str, host: Target) -> None:
    program = tvm.ir.load_json(tir)
    replayed = [replay(program, trace).mod for trace in random_traces(tir, str(host), 3)]
    assert [takes_too_much(module, program) for module in replayed] == [None] * 3


def test_a_trace_that_pads_and_pads_takes_too_much() -> None:
    program = tvm.ir.load_json(matmul(64, 64, 64))
    excess = takes_too_much(replay(program, GREEDY).mod, program)
    assert excess is not None and "for copies, more than the 67108864 it may" in excess


def test_such_a_trace_is_not_built(tmp_path: Path, host: Target) -> None:
    request = BuildRequest(matmul(64, 64, 64), str(host), GREEDY)
    failure = build(BuildJob(request, tmp_path / "never.so"))
    assert isinstance(failure, BuildFailure)
    assert failure.error is ErrorClass.BUILD
    assert "bytes for copies" in failure.text
    assert not (tmp_path / "never.so").exists()
