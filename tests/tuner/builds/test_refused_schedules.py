"""Schedules that a build refuses: they carry code, do not replay, or are for another target."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tvm
from near_programs import A76

from tunebook.cache.errors import UntrustedTraceError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.misses import LookupAnswer, ScheduleMissError
from tunebook.cache.records import Schedule
from tunebook.cache.store import Store
from tunebook.cache.targets import Target
from tunebook.tuner.builds.compile_model import compile_model
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.importing.imported_model import ImportedModel
from tunebook.tuner.llvm_targets import resolve_target
from tunebook.tuner.splitting.prepare import prepare
from tunebook.tuner.splitting.split import split
from tunebook.tuner.traces import replay
from tunebook.tuner.traces.usable import ReplayError

Read = Callable[..., ImportedModel]
SYMBOL = "tunebook_was_here"


class OneForAll:
    """Answers with one schedule for one operator and leaves the rest unscheduled.

    A fake: a real store refuses such schedules before they get here.
    """

    def __init__(self, op: str, trace: str, module_hash: str = "") -> None:
        self._op, self._trace, self._module_hash = op, trace, module_hash

    def find_model(self, *_: str) -> None:
        return None

    def lookup(self, keys: list[ScheduleKey], **_: Any) -> LookupAnswer:
        hits = {}
        for key in keys:
            plain = Schedule(key, 7, json.dumps([[], []]), key.workload_hash, 1e-3, False)
            name = self._module_hash or key.workload_hash
            special = replace(plain, trace=self._trace, module_hash=name)
            hits[key] = special if key.op == self._op else plain
        return LookupAnswer(hits=hits, misses=())


def carrying_code() -> str:
    """A trace that replays, and whose annotation puts a symbol of its own into the library."""
    module = f'module asm ".globl {SYMBOL}\\0A{SYMBOL}:"'
    return json.dumps(
        [
            [
                ["GetSBlock", [], ["conv2d_nchw", "main"], ["b0"]],
                ["GetLoops", ["b0"], [], [f"l{axis}" for axis in range(1, 8)]],
                ["Annotate", ["l1", f'"{module}"'], ["pragma_import_llvm"], []],
            ],
            [],
        ]
    )


def libraries_with_the_symbol(folder: Path) -> list[Path]:
    return [one for one in folder.rglob("*.so") if SYMBOL.encode() in one.read_bytes()]


def test_a_trace_that_carries_code_is_refused_by_name_at_replay(
    read: Read, host: Target, tmp_path: Path
) -> None:
    with pytest.raises(UntrustedTraceError, match="pragma_import_llvm"):
        compile_model(
            read("convolution"),
            host,
            cache=OneForAll("conv2d+relu", carrying_code()),
            output=tmp_path / "built",
        )
    assert list(tmp_path.glob("built*")) == []


def test_a_trace_that_carries_code_is_refused_by_name_at_serving(
    tuned_convolution: ImportedModel, host: Target, store: Store, tmp_path: Path
) -> None:
    # Put in by hand, since nothing of ours would store it.
    with sqlite3.connect(tmp_path / "tunebook.db") as database:
        database.execute("UPDATE records SET trace = ?", (carrying_code(),))
    with pytest.raises(ScheduleMissError) as refused:
        compile_model(tuned_convolution, host, cache=store, output=tmp_path / "built")
    assert "pragma_import_llvm" in refused.value.misses[0].explanation
    compile_model(tuned_convolution, host, cache=store, output=tmp_path / "built", on_miss="warn")
    assert libraries_with_the_symbol(tmp_path) == []


def test_without_the_refusal_the_code_would_be_in_the_library(
    read: Read, host: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A fake: shows that the trace of the two tests above is dangerous, and not merely malformed.
    monkeypatch.setattr(replay, "check_trace", lambda trace: None)
    model = split(prepare(read("convolution"), host))
    replayed = tvm.s_tir.Schedule(tvm.ir.load_json(model[0].workload.tir))
    tvm.s_tir.Trace.apply_json_to_schedule(json.loads(carrying_code()), replayed)
    cache = OneForAll("conv2d+relu", carrying_code(), module_hash(replayed.mod))
    compile_model(read("convolution"), host, cache=cache, output=tmp_path / "built")
    assert libraries_with_the_symbol(tmp_path) == [tmp_path / "built.so"]


@pytest.mark.parametrize(
    ("block", "module_hash", "said"),
    [
        ("no_such_block", "", "does not replay"),
        ("conv2d_nchw", "0123456789abcdef", "and not to 0123456789abcdef"),
    ],
    ids=["of another workload", "of another outcome"],
)
def test_a_schedule_that_does_not_replay_names_its_record_and_key(
    block: str, module_hash: str, said: str, read: Read, host: Target, tmp_path: Path
) -> None:
    trace = json.dumps([[["GetSBlock", [], [block, "main"], ["b0"]]], []])
    model = read("convolution")
    with pytest.raises(ReplayError) as refused:
        compile_model(
            model,
            host,
            cache=OneForAll("conv2d+relu", trace, module_hash),
            output=tmp_path / "built",
        )
    key = split(prepare(model, host))[0].workload.key.on(str(host))
    assert said in str(refused.value)
    assert "record 7" in str(refused.value)
    assert str(key) in str(refused.value)
    assert "\n" not in str(refused.value)
    assert list(tmp_path.glob("built*")) == []


def test_schedules_of_one_target_are_not_served_for_another(
    tuned_convolution: ImportedModel, store: Store, tmp_path: Path
) -> None:
    with pytest.raises(ScheduleMissError) as refused:
        compile_model(tuned_convolution, A76, cache=store, output=tmp_path / "built")
    assert refused.value.misses[0].key.target == str(resolve_target(A76))
