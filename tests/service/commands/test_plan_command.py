"""`tunebook plan`: its words, its documents and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tunebook.cache.errors import ExitCode
from tunebook.cache.store import Store
from tunebook.service.cli import run

NUMBERS = """
models = 40
targets = 5
trials = 1200
seconds_per_trial = 0.3
[budget]
time = "12h"
"""


@pytest.fixture
def database(tmp_path: Path) -> str:
    path = str(tmp_path / "tunebook.db")
    Store.open(path).close()
    return path


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(NUMBERS, encoding="utf-8")
    return path


def test_twenty_hours_do_not_fit_twelve_and_it_says_what_would(
    plan_file: Path, database: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", str(plan_file), "--db", database]) == ExitCode.BUDGET
    said = capfd.readouterr().out
    assert "200 jobs (40 models on 5 targets): 240,000 trials in 20:00:00" in said
    assert "This does not fit: there is 12:00:00." in said
    for remedy in (
        "at most 720 a job",
        "fewer targets: 3 of the 5",
        "fewer models: 24 of the 40",
        "more boards: 2 of class local",
        "a larger budget: 20:00:00",
    ):
        assert remedy in said


@pytest.mark.parametrize(
    "options",
    [["--trials", "720"], ["--boards", "local=2"], ["--seconds-per-trial", "0.18"]],
    ids=lambda options: options[0],
)
def test_each_option_that_makes_it_fit_makes_it_exit_well(
    plan_file: Path, database: str, options: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", str(plan_file), "--db", database, *options]) == ExitCode.OK
    assert "This fits: there is 12:00:00." in capfd.readouterr().out


def test_machines_get_one_document_whether_it_fits_or_not(
    plan_file: Path, database: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", str(plan_file), "--db", database, "--json"]) == ExitCode.BUDGET
    document = json.loads(capfd.readouterr().out)
    assert (document["fits"], document["short_of"]) == (False, ["time"])
    assert document["demand"]["seconds"] == pytest.approx(72_000)
    assert document["remedies"]["trials_per_job"] == 720


@pytest.mark.parametrize(
    "options",
    [["--trials", "0"], ["--boards", "pi5"], ["--boards", "=2"], ["--seconds-per-trial", "-1"]],
    ids=" ".join,
)
def test_a_wrong_option_is_one_line(
    plan_file: Path, database: str, options: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", str(plan_file), "--db", database, *options]) == ExitCode.USAGE
    err = capfd.readouterr().err
    assert err.startswith("error: ")
    assert options[0] in err
    assert err.count("\n") == 1
