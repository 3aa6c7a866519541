"""How a night looks while it goes on, on a terminal and in a log."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Any

import pytest

from tunebook.service.commands.night_view import NightProgressView
from tunebook.service.nights.documents import BudgetDocument, JobDocument
from tunebook.service.nights.night_progress import NightProgress

NOW = datetime(2026, 12, 1, 2, 0, tzinfo=timezone.utc)
BUDGET = {
    "id": 1,
    "name": "night",
    "trials": {"limit": 100, "spent": 25, "in_flight": 0, "left": 75},
    "seconds": {"limit": None, "used": 60.0, "left": None},
    "board_seconds": {"limit": 100.0, "used": 50.0, "left": 50.0},
    "deadline": "2026-12-01T05:00:00Z",
    "over": None,
}


def job(number: int, state: str, **others: Any) -> JobDocument:
    fields = {
        "id": number,
        "state": state,
        "model": "0" * 64,
        "shapes": {},
        "target": "llvm -mtriple=aarch64-linux-gnu -num-cores=4",
        "board_class": "rpi4",
        "layout": "NCHW",
        "priority": 1.0,
        "budget": BUDGET,
        **others,
    }
    return JobDocument.model_validate(fields)


def moment(*jobs: JobDocument) -> NightProgress:
    labelled = tuple((f"model {one.id} on pi", one) for one in jobs)
    return NightProgress(labelled, BudgetDocument.model_validate(BUDGET))


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """stderr, which the tests catch, taken for a terminal."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")


def shown(
    capfd: pytest.CaptureFixture[str], *moments: NightProgress, quiet: bool = False, told: str = ""
) -> list[str]:
    """The lines that a view of these moments leaves on stderr, without control codes."""
    with NightProgressView(lambda: NOW, quiet=quiet) as view:
        if told:
            view.tell(told)
        for one in moments:
            view.show(one)
    out, err = capfd.readouterr()
    assert out == ""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", err).splitlines()


RUNNING = job(1, "running")
WAITING = job(2, "waiting", waiting_for="rpi5", reason="nobody has one")
DONE = job(3, "done", reason="trials")


@pytest.mark.usefixtures("terminal")
def test_a_terminal_shows_what_is_used_and_what_runs(capfd: pytest.CaptureFixture[str]) -> None:
    text = "\n".join(shown(capfd, moment(RUNNING, WAITING, DONE)))
    assert "1 running, 1 waiting, 1 done; no boards of rpi5; 25 trials; 3:00:00 left" in text
    assert "model 1 on pi" in text
    assert "model 3 on pi: done (trials)" in text


@pytest.mark.usefixtures("terminal")
def test_a_terminal_shows_a_job_that_ended_no_longer(capfd: pytest.CaptureFixture[str]) -> None:
    lines = shown(capfd, moment(RUNNING), moment(job(1, "done", reason="trials")))
    last = max(number for number, line in enumerate(lines) if line.startswith("night"))
    assert not any(line.startswith("model 1 on pi ") for line in lines[last + 1 :])


def test_a_log_gets_a_line_for_each_change(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    lines = shown(capfd, moment(RUNNING), moment(RUNNING, WAITING), moment(RUNNING, WAITING, DONE))
    assert lines == [
        "model 1 on pi: running",
        "model 2 on pi: waiting (nobody has one)",
        "model 3 on pi: done (trials)",
    ]


@pytest.mark.parametrize("told", ["the\ncoordinator", "the\tcoordinator", "the  coordinator"])
def test_what_happens_is_one_line(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert shown(capfd, told=told) == ["the coordinator"]


def test_no_text_from_elsewhere_moves_the_cursor(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    with NightProgressView(lambda: NOW, quiet=False) as view:
        view.tell("before\x1b[2Jafter")
    assert "\x1b" not in capfd.readouterr().err


@pytest.mark.parametrize("where", ["terminal", "log"])
def test_quiet_shows_nothing(
    capfd: pytest.CaptureFixture[str], request: pytest.FixtureRequest, where: str
) -> None:
    if where == "terminal":
        request.getfixturevalue("terminal")
    assert shown(capfd, moment(RUNNING, DONE), quiet=True, told="a word") == []
