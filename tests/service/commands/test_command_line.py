"""What holds for every command: options, errors of one line, exit codes, JSON."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tunebook.cache.errors import ExitCode
from tunebook.service import cli
from tunebook.service.cli import run

COMMANDS = [
    *(["tune"], ["build"], ["lookup"], ["key"], ["target"], ["import"], ["export"], ["demo"]),
    *(["plan"], ["nightly"], ["check"], ["submit"]),
    ["db", "upgrade"],
    *(["token", "create"], ["token", "list"], ["token", "revoke"]),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself_and_can_speak_json(
    command: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, "--help"]) == ExitCode.OK
    assert "--json" in capfd.readouterr().out


@pytest.mark.parametrize(
    "command",
    [one for one in COMMANDS if one not in (["target"], ["nightly"], ["submit"])],
    ids=" ".join,
)
def test_every_command_with_a_database_takes_it_from_the_environment(
    command: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    run([*command, "--help"])
    assert "TUNEBOOK_DATABASE_URL" in capfd.readouterr().out


@pytest.mark.parametrize(
    "command", ["build", "lookup", "check", "plan", "nightly", "submit"], ids=str
)
def test_every_command_with_a_coordinator_takes_it_from_the_environment(
    command: str, capfd: pytest.CaptureFixture[str]
) -> None:
    run([command, "--help"])
    assert "TUNEBOOK_SERVER" in capfd.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [["nope"], ["tune"], ["target"], ["target", "--nope", "x"], ["db", "nope"], ["tune", "a", "b"]],
    ids=" ".join,
)
def test_a_wrong_call_is_one_line_with_the_code_of_usage(
    arguments: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == ExitCode.USAGE
    err = capfd.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_an_interruption_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The interruption is faked: a signal would end the tests."""

    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", interrupted)
    assert run(["db", "upgrade"]) == ExitCode.INTERRUPTED
    assert "run the same command to go on" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("missing", "arguments"),
    [
        ("tvm", ["target", "host"]),
        ("tvm", ["tune", "model.onnx", "--target", "host"]),
        ("tvm", ["build", "model.onnx", "--target", "host", "-o", "out"]),
        ("tvm", ["lookup", "model.onnx", "--target", "host"]),
        ("tvm", ["import", "work_dir"]),
        ("tvm", ["export", "out"]),
        ("tvm", ["demo"]),
        ("onnx", ["lookup", "model.onnx", "--target", "host"]),
        ("onnxruntime", ["build", "model.onnx", "--target", "host", "-o", "out"]),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_a_module_that_is_not_installed_is_one_line(
    missing: str, arguments: list[str], tmp_path: Path
) -> None:
    """Python's own way of saying that a module is not there: None in its place."""
    program = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from tunebook.service.cli import run\n"
        f"sys.exit(run({arguments!r}))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == ExitCode.INCOMPATIBLE
    assert ended.stderr == (
        f"error: the module {missing} is not installed, which this command needs; "
        'run: pip install "tunebook[tune]"\n'
    )


def test_a_fault_of_the_machine_that_nobody_expected_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
        assert run(["demo"]) == ExitCode.FAILURE
    err = capfd.readouterr().err
    assert "gone" in err
    assert "No such file or directory" in err
    assert err.count("\n") == 1


def test_a_stop_by_the_service_manager_is_like_ctrl_c() -> None:
    program = (
        "import os, signal, time\n"
        "from tunebook.service import cli\n"
        "def stopped(**_):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    time.sleep(60)\n"
        "cli.app = stopped\n"
        "cli.main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ended.returncode == ExitCode.INTERRUPTED
    assert "run the same command to go on" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_database_is_made_once_and_upgraded_to_where_it_is(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    database = str(tmp_path / "tunebook.db")
    answers = []
    for _ in range(2):
        assert run(["db", "upgrade", "--db", database, "--json"]) == ExitCode.OK
        answers.append(json.loads(capfd.readouterr().out))
    assert answers[0]["before"] is None
    assert answers[1]["before"] == answers[1]["after"] == answers[0]["after"]


def test_a_target_is_printed_in_its_canonical_text(capfd: pytest.CaptureFixture[str]) -> None:
    spelling = "llvm -num-cores=4 -mattr=+neon,+dotprod -mtriple=aarch64-unknown-linux-gnu"
    assert run(["target", spelling]) == ExitCode.OK
    assert capfd.readouterr().out == (
        "llvm -mtriple=aarch64-linux-gnu -mattr=+dotprod,+neon -num-cores=4\n"
    )


def test_an_error_that_nobody_expected_is_one_line_that_says_how_to_report_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The fault is faked: the known ones have been mended."""

    def broken(**_: object) -> None:
        raise TypeError("'<' not supported\nbetween these")

    monkeypatch.setattr(cli, "app", broken)
    assert run(["db", "upgrade"]) == ExitCode.FAILURE
    err = capfd.readouterr().err
    assert err.count("\n") == 1
    assert "unexpected TypeError" in err
    assert "TUNEBOOK_TRACEBACK=1" in err


@pytest.mark.parametrize("option", ["--trials", "--more"])
def test_more_trials_than_can_be_counted_are_a_wrong_call(
    option: str, capfd: pytest.CaptureFixture[str]
) -> None:
    code = run(["tune", "model.onnx", "--target", "host", option, "9" * 23])
    assert code == ExitCode.USAGE
    assert option in capfd.readouterr().err


def test_a_database_url_with_a_word_for_a_port_is_one_line(
    capfd: pytest.CaptureFixture[str],
) -> None:
    url = "postgresql://user:secret@127.0.0.1:port/x"
    assert run(["db", "upgrade", "--db", url]) == ExitCode.DATABASE
    assert "secret" not in capfd.readouterr().err


def test_a_migration_makes_no_database_where_none_is(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    database = tmp_path / "none.db"
    arguments = ["migrate", "model.onnx", "--target", "host", "--db", str(database)]
    assert run(arguments) == ExitCode.DATABASE
    assert capfd.readouterr().err == (
        f"error: there is no database at {database}; tune first, or give --db\n"
    )
    assert not database.exists()
