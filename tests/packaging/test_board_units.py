"""The units of a board's agent and of its governor's helper, as they fit together."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tunebook.service.cli import app

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"
BOARD, SOCKET, HELPER = (
    "tunebook-board.service",
    "tunebook-governor.socket",
    "tunebook-governor@.service",
)
# An instance of a template, as the socket starts it.
REQUEST = "tunebook-governor@1.service"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units beside one another, of programs that are there: verifying looks for them."""
    for name in (BOARD, SOCKET, HELPER):
        text = (UNITS / name).read_text()
        (tmp_path / name).write_text(re.sub(r"(?m)^(ExecStart=)\S+", r"\g<1>/bin/true", text))
    shutil.copy(tmp_path / HELPER, tmp_path / REQUEST)
    return tmp_path


def analyze(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "SYSTEMD_COLORS": "0"},
    )


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze comes with systemd"
)
def test_systemd_takes_the_socket_with_the_service_that_it_starts(installed: Path) -> None:
    done = analyze("verify", "--man=no", *(installed / name for name in (BOARD, SOCKET, REQUEST)))
    assert (done.returncode, done.stderr) == (0, "")


def test_the_agents_options_are_those_of_the_command() -> None:
    command = next(one for one in app.registered_commands if one.name == "board")
    assert command.callback is not None
    known = {"--class", "--tracker", "--listen", "--governor", "--run-as"}
    text = (UNITS / BOARD).read_text()
    start = shlex.split(re.search(r"(?m)^ExecStart=(.*)$", text).group(1))  # type: ignore[union-attr]
    example = shlex.split(re.search(r"BOARD_OPTIONS=(.*)$", text, re.M).group(1))  # type: ignore[union-attr]
    assert start[1] == "board"
    assert {word for word in (*start, *example) if word.startswith("--")} == known
    declared = re.findall(r'"(--[a-z-]+)"', Path(command.callback.__code__.co_filename).read_text())
    assert known <= set(declared)


def test_the_helper_and_the_agent_agree_where_they_meet() -> None:
    from tunebook.workers.agent.governor import HELPER_SOCKET

    assert f"ListenStream={HELPER_SOCKET}\n" in (UNITS / SOCKET).read_text()
