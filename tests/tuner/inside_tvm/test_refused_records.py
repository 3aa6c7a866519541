"""Stored schedules that a TunebookDatabase does not give to TVM."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from database_samples import alter, apply
from tvm import relax

from tunebook.cache.errors import UntrustedTraceError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.misses import LookupAnswer, MissReason, ScheduleMissError
from tunebook.cache.records import Schedule
from tunebook.cache.store import Store
from tunebook.cache.targets import Target
from tunebook.tuner import TunebookDatabase
from tunebook.tuner.splitting.prepare import PreparedModule
from tunebook.tuner.traces.usable import ReplayError


def test_a_record_that_does_not_replay_to_what_was_measured_is_named_on_leaving(
    network: PreparedModule, tuned: Store, host: Target, tmp_path: Path
) -> None:
    alter(tmp_path, "records", "module_hash", "0123456789abcdef")
    with pytest.raises(ReplayError, match="and not to 0123456789abcdef"):
        apply(TunebookDatabase(tuned, host, on_miss="warn"), network.module)


def test_such_a_record_is_named_also_where_the_exception_was_caught_on_the_way(
    network: PreparedModule, tuned: Store, host: Target, tmp_path: Path
) -> None:
    alter(tmp_path, "records", "module_hash", "0123456789abcdef")
    database = TunebookDatabase(tuned, host)
    with (
        pytest.raises(ReplayError),
        database.target,
        database,
        contextlib.suppress(Exception),
    ):
        relax.transform.MetaScheduleApplyDatabase()(network.module)


HOSTILE = json.dumps(
    [
        [
            ["GetSBlock", [], ["conv2d_nchw", "main"], ["b0"]],
            ["Annotate", ["b0", '"module asm \\"evil\\""'], ["pragma_import_llvm"], []],
        ],
        [],
    ]
)


def test_a_trace_that_carries_code_is_refused_at_serving(
    network: PreparedModule, tuned: Store, host: Target, tmp_path: Path
) -> None:
    alter(tmp_path, "records", "trace", HOSTILE)
    with pytest.raises(ScheduleMissError) as refused:
        apply(TunebookDatabase(tuned, host), network.module)
    for miss in refused.value.misses:
        assert miss.reason is MissReason.UNVERIFIED
        assert "pragma_import_llvm" in miss.explanation


class ServesAnything(Store):
    """A fake: a store whose look-ups do not check traces, which ours does before it serves."""

    def lookup(self, keys: Sequence[ScheduleKey], **_: Any) -> LookupAnswer:
        hits = {key: Schedule(key, 7, HOSTILE, "", 1e-3, False) for key in keys}
        return LookupAnswer(hits=hits, misses=())


def test_a_trace_that_carries_code_is_refused_at_replay_too(
    network: PreparedModule, host: Target, tmp_path: Path
) -> None:
    with (
        ServesAnything.open(str(tmp_path / "other.db")) as store,
        pytest.raises(UntrustedTraceError, match="pragma_import_llvm"),
    ):
        apply(TunebookDatabase(store, host), network.module)
