"""`tunebook nightly` as cron runs it: what it prints and writes, and its exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from real_nights import Nights
from stand_in_worker import StandInWorker

from tunebook.cache.errors import ExitCode
from tunebook.cache.store import Store
from tunebook.service.cli import run

Nightly = Callable[..., int]


@pytest.fixture
def nightly(nights: Nights, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Nightly:
    """Runs the command in the folder of the night's file."""
    token = nights.coordinator.headers["Authorization"].removeprefix("Bearer ")
    monkeypatch.setenv("TUNEBOOK_TOKEN", token)
    monkeypatch.setenv("TUNEBOOK_SERVER", nights.coordinator.url)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(nights.folder)
    return lambda *arguments: run(["nightly", "nightly.toml", *arguments])


def test_the_summary_goes_to_stdout_and_to_the_files_that_are_named(
    nightly: Nightly, nights: Nights, store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    nights.model("a")
    nights.file("a", settings="min_hit_rate = 1")
    with StandInWorker(store):
        code = nightly("--summary", "night.md", "--summary", "night.json")
    assert code == ExitCode.OK
    said = capfd.readouterr()
    markdown = (nights.folder / "night.md").read_text()
    assert said.out == markdown
    assert markdown.startswith("# test of 20")
    document = json.loads((nights.folder / "night.json").read_text())
    assert document["jobs"][0]["outcome"] == "done"
    assert document["min_hit_rate"] == 1.0
    assert "a on pi: done (trials)" in said.err.splitlines()
    assert sorted(path.name for path in (nights.folder / "home").rglob("*.json")) != []


def test_machines_get_one_document_and_nothing_beside_it(
    nightly: Nightly, nights: Nights, store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    nights.model("a")
    nights.file("a")
    with StandInWorker(store):
        assert nightly("--json", "--night", "one of its own") == ExitCode.OK
    said = capfd.readouterr()
    assert json.loads(said.out)["night"] == "one of its own"
    assert said.err == ""


def test_a_job_that_failed_is_a_failure_of_the_night(
    nightly: Nightly, nights: Nights, capfd: pytest.CaptureFixture[str]
) -> None:
    nights.file("gone")
    assert nightly() == ExitCode.FAILURE
    assert "gone.onnx cannot be read" in capfd.readouterr().out.replace("\\", "")


def test_a_hit_rate_below_what_was_asked_for_is_a_miss(
    nightly: Nightly, nights: Nights, store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    digest = nights.model("a")
    nights.file("a", settings="min_hit_rate = 0.5")
    with StandInWorker(store, misses=frozenset({digest})):
        assert nightly() == ExitCode.MISS
    assert "below 50.0 %" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("budget", "targets", "code", "said"),
    [
        ("trials = 0", None, ExitCode.BUDGET, "nightly.toml: budget.trials: "),
        ("deadline = 2020-01-01T06:00:00Z", None, ExitCode.BUDGET, "is over"),
        ("", "target = 'llvm -mcpu'", ExitCode.BAD_TARGET, "target"),
        ("", "target = 'llvm'\npriority = -1", ExitCode.USAGE, "nightly.toml: targets[0].priority"),
    ],
)
def test_a_file_that_cannot_be_is_one_line(
    nightly: Nightly,
    nights: Nights,
    capfd: pytest.CaptureFixture[str],
    budget: str,
    targets: str | None,
    code: ExitCode,
    said: str,
) -> None:
    nights.file("a", budget=budget, **({} if targets is None else {"targets": targets}))
    assert nightly() == code
    err = capfd.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_a_summary_that_cannot_be_written_is_noticed_before_the_night(
    nightly: Nightly, nights: Nights, store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    nights.file("a")
    assert nightly("--summary", "none/night.md") == ExitCode.USAGE
    assert "--summary none/night.md" in capfd.readouterr().err
    assert store.queue.budgets() == ()


def test_a_coordinator_that_is_not_there_is_noticed(
    nightly: Nightly,
    nights: Nights,
    held_port: int,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TUNEBOOK_PATIENCE", "0")
    nights.file("a")
    assert nightly("--server", f"http://127.0.0.1:{held_port}") == ExitCode.SERVER
    assert "does not answer" in capfd.readouterr().err
