"""`tunebook demo`, which a reader of the README runs first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tunebook.cache.errors import ExitCode

pytestmark = pytest.mark.slow

TASKS = 22
TRIALS = 24


def test_the_demo_tunes_builds_compares_tunes_again_misses_and_mends(
    tunebook: Any, magika: Path, tmp_path: Path
) -> None:
    """`magika` skips this where the demo's model is not installed."""
    outcome = tunebook("demo", "--trials", TRIALS, "--db", tmp_path / "demo.db", "--json")
    assert outcome.code == ExitCode.OK, outcome.err
    told = outcome.document
    assert len(told["first_tune"]["tasks"]) == TASKS
    assert told["first_tune"]["trials"] == TRIALS
    assert (told["build"]["hits"], told["build"]["misses"]) == (TASKS, [])
    assert told["second_tune"]["trials"] == 0
    assert [miss["reason"] for miss in told["misses"]] == ["other-target"] * TASKS
    assert len(told["migration"]["tasks"]) == TASKS
    assert TASKS <= told["migration"]["trials"] <= 2 * TASKS
    assert (told["mended_build"]["hits"], told["mended_build"]["misses"]) == (TASKS, [])
    compared = told["comparison"]
    assert 0 <= compared["largest_difference"] < 1e-3
    for build in ("untuned", "tuned", "onnxruntime"):
        assert compared[f"{build}_seconds"] > 0
