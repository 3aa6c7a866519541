"""Files that plans are read from."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from tunebook.cache.errors import BudgetError, UsageError
from tunebook.service.plans.plan_file import read_plan

NOW = datetime(2027, 1, 31, 20, 0, tzinfo=timezone.utc)
NUMBERS = """
models = 40
targets = 5
trials = 1200
seconds_per_trial = 0.3
[budget]
time = "12h"
"""
NIGHT = """
name = "night"
[budget]
trials = 5000
time = "8h"
[settings.well_enough]
trials = 96
[[models]]
path = "one.onnx"
priority = 2.0
shapes = [{ x = [1, 8] }, { x = [4, 8] }]
[[models]]
path = "missing.onnx"
[[targets]]
target = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4"
name = "pi5"
board_class = "rpi5"
"""


def _file(folder: Path, text: str) -> Path:
    path = folder / "plan.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_numbers_stand_for_every_model_on_every_target(tmp_path: Path) -> None:
    plan, left_open = read_plan(_file(tmp_path, NUMBERS), NOW)
    assert len({(job.name, job.target) for job in plan.jobs}) == 200
    assert (plan.trials_per_job, plan.seconds_per_trial) == (1200, 0.3)
    assert (plan.budget.seconds, left_open) == (43200.0, ())


def test_a_night_gives_its_jobs_its_budget_and_what_is_well_enough(tmp_path: Path) -> None:
    (tmp_path / "one.onnx").write_bytes(b"a model")
    plan, left_open = read_plan(_file(tmp_path, NIGHT), NOW)
    assert [(job.name, job.shapes_text, job.priority) for job in plan.jobs] == [
        ("one", "x=1,8", 2.0),
        ("one", "x=4,8", 2.0),
        ("missing", "", 1.0),
    ]
    assert [job.model is None for job in plan.jobs] == [False, False, True]
    assert {job.board_class for job in plan.jobs} == {"rpi5"}
    assert (plan.budget.trials, plan.budget.seconds, plan.trials_per_task) == (5000, 28800.0, 96)
    assert len(left_open) == 1
    assert "missing.onnx" in left_open[0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (NUMBERS.replace("= 40", "= 0"), "models"),
        (NUMBERS.replace("seconds_per", "second_per"), "second_per_trial"),
        (NUMBERS.replace("0.3", "-1"), "seconds_per_trial"),
        (NUMBERS.replace("= 5", '= "five"'), "targets"),
        (NUMBERS.replace("= 40", "= 2000").replace("= 5", "= 2000"), "jobs"),
        ("models = [", "no TOML"),
        (NIGHT.replace("[[targets]]", "[[aims]]"), "targets"),
    ],
)
def test_a_fault_names_the_file_and_the_field(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told) as caught:
        read_plan(_file(tmp_path, text), NOW)
    assert "plan.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_plan(tmp_path / "none.toml", NOW)


def test_a_deadline_that_is_over_is_refused(tmp_path: Path) -> None:
    text = NUMBERS.replace('time = "12h"', "deadline = 2020-01-01T06:00:00Z")
    with pytest.raises(BudgetError, match="over"):
        read_plan(_file(tmp_path, text), NOW)
