"""Database files as TVM's own MetaSchedule writes them, with traces that its search space gives."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tvm
from near_programs import A72, A76, conv, matmul, random_traces
from tvm.s_tir import meta_schedule as ms

from tunebook.cache.exchange.interchange import InterchangeFiles
from tunebook.tuner.llvm_targets import tvm_target
from tunebook.tuner.traces.replay import replay

PROGRAMS = (conv(8), matmul(16, 16, 16))
TARGETS = (A76, A72)
SECONDS = (3e-3, 1e-3, None, 2e-3)  # of each program on each target; None: it failed


def stock_database(folder: Path) -> Any:
    """TVM's own database on the two files of a folder."""
    files = InterchangeFiles.of(folder)
    return ms.database.JSONDatabase(*map(str, files.both))


def write_stock_files(folder: Path) -> None:
    """Four trials of each program on each target, in that order."""
    database = stock_database(folder)
    for tir in PROGRAMS:
        module = tvm.ir.load_json(tir)
        workload = database.commit_workload(module)
        arguments = ms.arg_info.ArgInfo.from_entry_func(module, remove_preproc=True)
        for target in TARGETS:
            traces = random_traces(tir, target, len(SECONDS))
            for trace, seconds in zip(traces, SECONDS, strict=True):
                database.commit_tuning_record(
                    ms.database.TuningRecord(
                        replay(module, trace).trace,
                        workload,
                        [1e10 if seconds is None else seconds],
                        tvm_target(target),
                        arguments,
                    )
                )


def lines_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_lines(path: Path, lines: Sequence[Any]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
