"""How a tuning run looks on a terminal, while it goes on and when it is over."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import ErrorClass, Model
from tunebook.cache.store import Budget, TaskState
from tunebook.service.commands.tune_view import ProgressView, print_tune_report
from tunebook.workers.commands.search_worker import RunSummary
from tunebook.workers.commands.tuning import TuneReport
from tunebook.workers.rounds.progress import Progress

TARGET = "llvm -mtriple=aarch64-linux-gnu -num-cores=4"
COMPILER = "tvm-0.27.0+llvm-22"
COLUMNS = [
    "key (op | buffers | hash)",
    *("weight", "trials", "untuned", "tuned", "speed-up", "failures"),
]
MOMENT = Progress(7, 40, 1.5e-3, 125.0, "conv2d")


def _task(op: str, untuned: float | None, served: float | None, **others: object) -> TaskState:
    key = ScheduleKey(op, "f32[1,8] -> f32[1,8]", TARGET, COMPILER, "0123456789abcdef")
    task = TaskState(1, key, 1, 0.0, untuned, served, served, 8, (), False, {})
    return replace(task, **others)  # type: ignore[arg-type]


def _report(tasks: Sequence[TaskState], trials: int = 8, ended: str = "budget") -> TuneReport:
    model = Model("0" * 64, "", TARGET, COMPILER, "", ())
    return TuneReport(model, RunSummary(trials, 65.0, ended), Budget(1, 40, 40, 40, 1.0), (*tasks,))


def _rows(out: str) -> list[list[str]]:
    """The cells of the table's rows, its head first."""
    lines = [re.split("[│┃]", line) for line in out.splitlines() if re.match(" *[│┃]", line)]
    return [[cell.strip() for cell in line[1:-1]] for line in lines]


def _key(op: str) -> str:
    return f"{op} | f32[1,8] -> f32[1,8] | 0123456789abcdef"


def test_a_row_has_what_the_task_weighs_took_won_and_failed_by_class(
    capfd: pytest.CaptureFixture[str],
) -> None:
    failures = {ErrorClass.RUN_TIMEOUT: 2, ErrorClass.WRONG_OUTPUT: 1}
    print_tune_report(
        _report([_task("dense", 4e-3, 16e-6, weight=3, trials=24, failures=failures)])
    )
    head, row = _rows(capfd.readouterr().out)
    assert head == COLUMNS
    assert row == [
        _key("dense"),
        *("3", "24", "4.000 ms", "16.0 us", "250.00", "2 run-timeout, 1 wrong-output"),
    ]


def test_a_task_without_times_has_dashes(capfd: pytest.CaptureFixture[str]) -> None:
    print_tune_report(_report([_task("dense", None, None)]))
    _, row = _rows(capfd.readouterr().out)
    assert row == [_key("dense"), "1", "8", "-", "-", "-", ""]


def test_the_task_that_costs_the_model_most_comes_first(capfd: pytest.CaptureFixture[str]) -> None:
    tasks = [_task("relu", 2e-3, 1e-3), _task("dense", 1e-3, 1e-3, weight=3), _task("add", None, 1)]
    print_tune_report(_report(tasks))
    rows = _rows(capfd.readouterr().out)[1:]
    assert [row[0] for row in rows] == [_key("dense"), _key("relu"), _key("add")]


def test_the_title_names_target_and_compiler(capfd: pytest.CaptureFixture[str]) -> None:
    print_tune_report(_report([_task("dense", 1e-3, 1e-3)]))
    assert capfd.readouterr().out.startswith(f"{TARGET}  {COMPILER}")


@pytest.mark.parametrize(
    ("report", "told"),
    [
        (
            _report([_task("dense", 4e-3, 1e-3, weight=2), _task("relu", 1e-3, 1e-3)]),
            "8 trials in 1:05, ended since the budget is spent (40 of 40 trials spent). "
            "Sum of tasks: untuned 9.000 ms, tuned 3.000 ms, 3.00 times as fast.",
        ),
        (
            _report([_task("dense", 4e-3, None)], ended="time"),
            "8 trials in 1:05, ended since the time is over (40 of 40 trials spent). "
            "Sum of tasks: untuned 4.000 ms, tuned -.",
        ),
        (
            _report([_task("dense", 4e-3, 2e-3)], trials=0),
            "Nothing was measured: the budget is spent (40 of 40 trials spent; --more N adds). "
            "Sum of tasks: untuned 4.000 ms, tuned 2.000 ms, 2.00 times as fast.",
        ),
    ],
    ids=["all tasks served", "one without a schedule", "nothing measured"],
)
def test_the_last_line_says_what_the_run_did(
    report: TuneReport, told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    print_tune_report(report)
    assert capfd.readouterr().out.splitlines()[-1] == told


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """stderr, which the tests catch, taken for a terminal."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")


def _shown(progress: Progress, capfd: pytest.CaptureFixture[str], *, quiet: bool = False) -> str:
    """What a view of one moment leaves on stderr, without the terminal's control codes."""
    with ProgressView(quiet=quiet) as view:
        view.show(progress)
    out, err = capfd.readouterr()
    assert out == ""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", err)


@pytest.mark.parametrize(
    ("moment", "words", "unknown"),
    [
        (MOMENT, ["7/40", "best latency 1.500 ms, 2:05 left", "conv2d"], []),
        (replace(MOMENT, latency=None), ["7/40", "2:05 left", "conv2d"], ["latency"]),
        (replace(MOMENT, seconds_left=None), ["7/40", "1.500 ms", "conv2d"], ["left"]),
    ],
    ids=["all known", "no latency yet", "no rate yet"],
)
@pytest.mark.usefixtures("terminal")
def test_progress_shows_trials_best_latency_and_time_left(
    moment: Progress, words: list[str], unknown: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    shown = _shown(moment, capfd)
    assert [word for word in words if word not in shown] == [], shown
    assert [word for word in unknown if word in shown] == [], shown


@pytest.mark.usefixtures("terminal")
def test_quiet_progress_shows_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert _shown(MOMENT, capfd, quiet=True) == ""


def test_without_a_terminal_there_is_no_progress(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert _shown(MOMENT, capfd) == ""
