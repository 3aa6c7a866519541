"""What holds for every command: options, errors of one line, exit codes, JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tunebook.cache.errors import ExitCode
from tunebook.service import cli
from tunebook.service.cli import run

COMMANDS = [["tune"], ["build"], ["lookup"], ["target"], ["demo"], ["db", "upgrade"]]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself_and_can_speak_json(
    command: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, "--help"]) == ExitCode.OK
    assert "--json" in capfd.readouterr().out


@pytest.mark.parametrize("command", [one for one in COMMANDS if one != ["target"]], ids=" ".join)
def test_every_command_with_a_database_takes_it_from_the_environment(
    command: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    run([*command, "--help"])
    assert "TUNEBOOK_DATABASE_URL" in capfd.readouterr().out


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
