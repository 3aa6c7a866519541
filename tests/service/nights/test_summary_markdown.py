"""The summary of a night as people read it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunebook.cache.errors import ExitCode
from tunebook.service.nights.summary import (
    BudgetSummary,
    HitsSummary,
    HourSummary,
    JobSummary,
    NightSummary,
    RegressionSummary,
    TargetSummary,
    exit_code,
)
from tunebook.service.nights.summary_markdown import show_summary


def hits(found: int, wanted: int) -> HitsSummary:
    return HitsSummary(hits=found, wanted=wanted, rate=found / wanted)


def job(**others: Any) -> JobSummary:
    fields = {
        "job": 7,
        "model": "resnet",
        "digest": "0" * 64,
        "shapes": "",
        "target": "pi",
        "outcome": "done",
        "reason": "trials",
        "log": "",
        "trials": 120,
        "before": hits(1, 4),
        "after": hits(4, 4),
        "untuned_seconds": 0.05,
        "before_seconds": 0.04,
        "after_seconds": 0.01,
        "failed_trials": {},
        **others,
    }
    return JobSummary.model_validate(fields)


def night(**others: Any) -> NightSummary:
    budget = BudgetSummary(
        trials=120,
        trials_limit=1000,
        seconds=3700.0,
        seconds_limit=None,
        board_seconds=60.0,
        board_seconds_limit=600.0,
        deadline="2026-12-01T05:00:00+00:00",
        over=None,
    )
    target = TargetSummary(
        name="pi",
        target="llvm -mtriple=aarch64-linux-gnu -num-cores=4",
        board_class="rpi4",
        before=hits(1, 4),
        after=hits(4, 4),
        new_models=0,
    )
    fields = {
        "night": "nightly of 2026-11-30",
        "server": "http://127.0.0.1:8470",
        "started_at": "2026-11-30T22:00:00+00:00",
        "finished_at": "2026-12-01T02:00:00+00:00",
        "resumed": False,
        "before_is_late": False,
        "min_hit_rate": None,
        "budget": budget,
        "targets": [target],
        "jobs": [job()],
        "regressions": [],
        "another_hour": [],
        **others,
    }
    return NightSummary.model_validate(fields)


def test_a_night_is_told_by_hit_rates_times_and_what_was_spent() -> None:
    text = show_summary(night())
    assert "1 job: 1 done." in text
    assert "Spent: 120 of 1000 trials, 1:01:40 of work, 1:00 of 10:00 on boards." in text
    assert "| pi | 1/4 25.0 % | 4/4 100.0 % |  |" in text
    assert "| resnet | pi | 50.000 ms | 40.000 ms | 10.000 ms | 120 | 4/4 100.0 % |" in text
    assert "Nothing more is expected to be won." in text


@pytest.mark.parametrize("title", ["Regressed", "Failed", "Skipped"])
def test_what_there_is_nothing_of_has_no_heading(title: str) -> None:
    assert f"## {title}" not in show_summary(night())


def test_a_failure_is_told_with_its_reason_and_the_end_of_its_log() -> None:
    log = "\n".join(f"line {n}" for n in range(100))
    text = show_summary(night(jobs=[job(outcome="failed", reason="no ONNX model", log=log)]))
    assert "- resnet on pi: no ONNX model" in text
    assert "  line 99" in text
    assert "line 79\n" not in text
    assert "## Tuned" not in text


def test_a_regression_is_told_with_what_was_before() -> None:
    worse = [
        RegressionSummary(
            model="resnet", shapes="", target="pi", measure="latency", before=0.01, after=0.02
        ),
        RegressionSummary(
            model="resnet", shapes="x=1", target="pi", measure="hit-rate", before=1.0, after=0.5
        ),
    ]
    text = show_summary(night(regressions=worse))
    assert "| resnet | pi | latency | 10.000 ms | 20.000 ms |" in text
    assert r"| resnet \(x=1\) | pi | hit-rate | 100.0 % | 50.0 % |" in text


def test_another_hour_is_told_by_what_it_is_expected_to_win() -> None:
    hour = HourSummary(
        model="resnet", shapes="", target="pi", seconds=0.010, expected_seconds=0.009
    )
    text = show_summary(night(another_hour=[hour]))
    assert "| resnet | pi | 10.000 ms | 9.000 ms | 10.0 % |" in text


def test_a_target_below_what_was_asked_for_says_so() -> None:
    text = show_summary(night(jobs=[], min_hit_rate=1.0, targets=[below()]))
    assert "below 100.0 %" in text


@pytest.mark.parametrize(
    ("others", "code"),
    [
        ({}, ExitCode.OK),
        ({"min_hit_rate": 1.0}, ExitCode.OK),
        ({"jobs": [job(outcome="failed")]}, ExitCode.FAILURE),
        ({"jobs": [job(outcome="skipped")]}, ExitCode.OK),
        ({"jobs": [job(outcome="cancelled")]}, ExitCode.OK),
    ],
)
def test_the_exit_code_says_what_came_of_the_night(others: dict[str, Any], code: ExitCode) -> None:
    assert exit_code(night(**others)) == code


def test_a_hit_rate_below_what_was_asked_for_is_a_miss() -> None:
    assert exit_code(night(targets=[below()])) == ExitCode.OK
    assert exit_code(night(targets=[below()], min_hit_rate=1.0)) == ExitCode.MISS
    failed = night(targets=[below()], min_hit_rate=1.0, jobs=[job(outcome="failed")])
    assert exit_code(failed) == ExitCode.FAILURE


def test_a_target_of_which_nothing_is_known_is_below_what_was_asked_for() -> None:
    unknown = below().model_copy(update={"after": None})
    assert exit_code(night(targets=[unknown], min_hit_rate=0.5)) == ExitCode.MISS


@given(name=st.text(min_size=1), reason=st.text(), log=st.text())
def test_no_name_reason_or_log_becomes_markup(name: str, reason: str, log: str) -> None:
    text = show_summary(
        night(jobs=[job(model=name, outcome="failed", reason=reason, log=log), job(model=name)])
    )
    headings = ["# nightly of 2026-11-30", *(f"## {one}" for one in SECTIONS)]
    assert all(one.isprintable() for one in text.replace("\n", ""))
    outside = without_fences(text)
    assert [line for line in outside.splitlines() if line.startswith("#")] == headings
    bare = re.sub(r"\\.", "", outside)
    assert not re.search(r"[<`*_&\[]", bare)
    rows = [line for line in bare.splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows} == {5, 9}


SECTIONS = ("Hit rate", "Tuned", "Failed", "Another hour")


def below() -> TargetSummary:
    return TargetSummary(
        name="pi",
        target="llvm -mtriple=aarch64-linux-gnu -num-cores=4",
        board_class="rpi4",
        before=hits(1, 4),
        after=hits(3, 4),
        new_models=0,
    )


def without_fences(text: str) -> str:
    """The text without what stands in fences of backticks, as CommonMark closes them."""
    kept, fence = [], ""
    for line in text.splitlines():
        stripped = line.strip()
        if not fence and re.fullmatch("`{3,}", stripped):
            fence = stripped
        elif fence and re.fullmatch("`+", stripped) and len(stripped) >= len(fence):
            fence = ""
        elif not fence:
            kept.append(line)
    return "\n".join(kept)
