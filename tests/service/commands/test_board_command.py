"""`tunebook board` keeps a board at its tracker, and tells the coordinator how it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tunebook.cache.boards.registrations import RegisteredBoard
from tunebook.cache.errors import ExitCode
from tunebook.service.cli import run
from tunebook.service.commands.board_command import _warn_where_unreachable
from tunebook.workers.agent.board_agent import AgentSettings
from tunebook.workers.boards.tracker import TrackerAddress, query_tracker, running_tracker

COMMAND = [sys.executable, "-m", "tunebook.service.cli", "board"]
Start = Callable[..., "subprocess.Popen[bytes]"]
PATIENCE = 60.0


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as ends, (tmp_path / "log").open("wb") as log:

        def begin(*options: object, **environment: str) -> subprocess.Popen[bytes]:
            agent = subprocess.Popen(
                [*COMMAND, *map(str, options)],
                env={**os.environ, **environment},
                stderr=log,
            )
            ends.callback(agent.wait)
            ends.callback(agent.kill)
            return agent

        yield begin


def names_of(tracker: TrackerAddress, board_class: str) -> set[str | None]:
    return {board.name for board in boards_of(tracker, board_class)}


def boards_of(tracker: TrackerAddress, board_class: str) -> tuple[RegisteredBoard, ...]:
    return query_tracker(tracker, PATIENCE).boards_of(board_class)


def test_it_keeps_a_board_until_it_is_stopped_and_logs_json(
    start: Start, eventually: Callable[..., None], tmp_path: Path
) -> None:
    with running_tracker() as tracker:
        agent = start("--class", "rpi4b", "--tracker", tracker, "--name", "rpi4b-1")
        eventually(lambda: names_of(tracker, "rpi4b") == {"rpi4b-1"}, "the board is registered")
        log = tmp_path / "log"
        # The tracker knows of the board before the agent has looked there again.
        eventually(lambda: "is registered" in log.read_text(), "the agent knows that it is")
        agent.terminate()
        assert agent.wait(timeout=60) == ExitCode.OK
        eventually(lambda: names_of(tracker, "rpi4b") == set(), "the tracker has heard of it")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    if os.geteuid() == 0:
        assert lines.pop(0)["message"] == "what this board is sent runs as root; give --run-as USER"
    assert {line["board_class"] for line in lines} == {"rpi4b"}
    # Where the machine pauses it warns, and the board is registered once more.
    told = dict.fromkeys(line["message"] for line in lines if line["level"] == "info")
    assert list(told) == ["keeping the board", "the board is registered", "left"]


def test_its_token_is_not_there_for_kernels(
    start: Start, eventually: Callable[..., None], tmp_path: Path
) -> None:
    with running_tracker() as tracker:
        start(
            *("--class", "rpi4b", "--tracker", tracker, "--coordinator", "http://127.0.0.1:1"),
            TUNEBOOK_TOKEN="tbk_secret",
        )
        eventually(lambda: names_of(tracker, "rpi4b") != set(), "the board is registered")
        (board,) = boards_of(tracker, "rpi4b")
        assert board.pid is not None
        assert "tbk_secret" not in psutil.Process(board.pid).environ().values()
        log = tmp_path / "log"
        eventually(lambda: "not reported" in log.read_text(), "that no one took the report is told")
    said = log.read_text()
    assert said.count("not reported") == 1
    assert "tbk_secret" not in said


def test_nothing_is_left_of_one_that_was_killed(
    start: Start, eventually: Callable[..., None], is_gone: Callable[[int], bool]
) -> None:
    with running_tracker() as tracker:
        agent = start("--class", "rpi4b", "--tracker", tracker)
        eventually(lambda: names_of(tracker, "rpi4b") != set(), "the board is registered")
        (board,) = boards_of(tracker, "rpi4b")
        agent.kill()
        assert board.pid is not None
        eventually(lambda: is_gone(board.pid), "its server is gone too")


@pytest.mark.parametrize(
    ("tracker", "host", "advertise", "reachable"),
    [
        ("192.0.2.1", "127.0.0.1", None, False),
        ("192.0.2.1", "lo", None, False),
        ("192.0.2.1", "127.0.0.1", "192.0.2.7", True),
        ("192.0.2.1", "192.0.2.7", None, True),
        ("127.0.0.1", "127.0.0.1", None, True),
    ],
)
def test_a_board_that_no_worker_elsewhere_can_reach_is_told_of(
    tracker: str,
    host: str,
    advertise: str | None,
    reachable: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    place = TrackerAddress(tracker, 9190)
    _warn_where_unreachable(AgentSettings("pi", "pi-1", place, host=host, advertise=advertise))
    assert ("workers elsewhere cannot reach this board" in caplog.text) is not reachable


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--class", "my boards"], "letters, digits"),
        (["--class", "rpi4b.quarantined"], "does not end in .quarantined"),
        (["--class", "rpi4b", "--name", "a/b"], "without '/'"),
        (["--class", "rpi4b", "--emulated"], "--class emulated-aarch64"),
        (["--class", "emulated-aarch64"], "give --emulated"),
        (["--class", "rpi4b", "--listen", "0"], "means all addresses"),
        (["--class", "rpi4b", "--run-as", "root"], "root's rights"),
        (["--class", "rpi4b", "--run-as", "no-such-user"], "there is no user"),
        (["--class", "rpi4b", "--coordinator", "ftp://x"], "no address of a coordinator"),
        (["--class", "rpi4b", "--tracker", "nowhere"], "HOST:PORT"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    options: list[str],
    says: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TVM_USE_RUNTIME_LIB", "0")
    given = options if "--tracker" in options else [*options, "--tracker", "192.0.2.1:9190"]
    assert run(["board", *given]) == ExitCode.USAGE
    assert says in capsys.readouterr().err
