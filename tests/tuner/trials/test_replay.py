"""A trace is replayed as it is, or step by step, in one place each, and checked first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tvm

import tunebook.cache
import tunebook.tuner
import tunebook.workers
from tunebook.cache.errors import UntrustedTraceError
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.traces.replay import replay
from tunebook.tuner.traces.trace_steps import steps_of

PACKAGES = (tunebook.cache, tunebook.tuner, tunebook.workers)
INJECTING = [
    [
        ["GetSBlock", [], ["product", "main"], ["b0"]],
        ["Annotate", ["b0", '"module asm"'], ["pragma_import_llvm"], []],
    ],
    [],
]


def test_a_trace_schedules_to_the_module_that_it_was_recorded_with(
    matmul_program, matmul_candidates
) -> None:
    for candidate in matmul_candidates:
        schedule = replay(tvm.ir.load_json(matmul_program.tir), candidate.trace)
        assert module_hash(schedule.mod) == candidate.module_hash


def test_a_trace_that_carries_code_is_refused(matmul_program) -> None:
    with pytest.raises(UntrustedTraceError, match="pragma_import_llvm"):
        replay(tvm.ir.load_json(matmul_program.tir), json.dumps(INJECTING))


def test_a_trace_that_carries_code_has_no_steps() -> None:
    with pytest.raises(UntrustedTraceError, match="pragma_import_llvm"):
        steps_of(json.dumps(INJECTING))


def test_no_other_module_replays_one() -> None:
    files = [file for one in PACKAGES for file in Path(one.__file__).parent.rglob("*.py")]
    assert len(files) > 50
    replaying = {
        file.name
        for file in files
        for name in ("apply_json_to_schedule", "apply_to_schedule")
        if name in file.read_text(encoding="utf-8")
    }
    assert replaying == {"replay.py", "trace_steps.py"}
