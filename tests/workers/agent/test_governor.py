"""The governor is set by a helper that does nothing else, and the agent asks it."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

from tunebook.workers.agent import governor
from tunebook.workers.agent.governor import GovernorKeeper
from tunebook.workers.agent.machine import Machine

HELPER = Path(__file__).parents[3] / "deploy" / "tunebook-set-governor"
POLICIES = "sys/devices/system/cpu/cpufreq"
# What the helper runs as here: the files are made up, since this machine may set no frequencies.
AS_SERVICE = """
import sys
from importlib.machinery import SourceFileLoader
helper = SourceFileLoader("helper", sys.argv[1]).load_module()
helper.set_governor.__defaults__ = (helper.Path(sys.argv[2]),)
del sys.argv[1:]
sys.exit(helper.main())
"""


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """The root of a machine's files, with two policies."""
    for number in range(2):
        policy = tmp_path / POLICIES / f"policy{number}"
        policy.mkdir(parents=True)
        (policy / "scaling_available_governors").write_text("performance schedutil\n")
        (policy / "scaling_governor").write_text("schedutil\n")
    return tmp_path


@pytest.fixture(scope="module")
def helper() -> ModuleType:
    loader = SourceFileLoader("tunebook_set_governor", str(HELPER))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def governors(board: Path) -> list[str]:
    return [
        path.read_text().strip() for path in sorted(board.glob(f"{POLICIES}/*/scaling_governor"))
    ]


def test_a_governor_that_every_core_offers_is_set_for_all(board: Path, helper: ModuleType) -> None:
    assert helper.set_governor("performance", board / POLICIES) == "performance"
    assert governors(board) == ["performance", "performance"]


@pytest.mark.parametrize(
    "name",
    [
        "powersave",
        "",
        "Performance",
        "../../x",
        "performance\nschedutil",
        "performance ",
        "p" * 40,
        "\x00",
    ],
)
def test_nothing_else_is_ever_written(board: Path, helper: ModuleType, name: str) -> None:
    with pytest.raises(helper.Refused):
        helper.set_governor(name, board / POLICIES)
    assert governors(board) == ["schedutil", "schedutil"]


def test_what_one_core_does_not_offer_is_set_for_none(board: Path, helper: ModuleType) -> None:
    (board / POLICIES / "policy1/scaling_available_governors").write_text("schedutil\n")
    with pytest.raises(helper.Refused, match="policy1 offers schedutil"):
        helper.set_governor("performance", board / POLICIES)
    assert governors(board) == ["schedutil", "schedutil"]


@pytest.mark.parametrize(
    ("arguments", "given"),
    [(["no-such"], b""), ([], b"no-such\n"), ([], b""), (["one", "two"], b""), ([], b"\xff" * 200)],
)
def test_the_program_says_why_it_refuses_in_one_line(arguments: list[str], given: bytes) -> None:
    done = subprocess.run(
        [sys.executable, "-I", HELPER, *arguments], input=given, capture_output=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout.startswith(b"refused: ")
    assert done.stdout.count(b"\n") == 1
    assert done.stderr == b""


@pytest.fixture
def service(board: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The helper behind a socket, one process a connection, as tunebook-governor.socket has it."""
    monkeypatch.setattr(governor, "_ANSWER_SECONDS", 60.0)
    place = board / "governor.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(place))
    listener.listen()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                command = [sys.executable, "-c", AS_SERVICE, HELPER, board / POLICIES]
                subprocess.run(command, stdin=connection, stdout=connection, check=False)

    thread = threading.Thread(target=serve)
    thread.start()
    yield place
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def test_the_agent_asks_the_helper_until_the_governor_holds(
    board: Path, service: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    keeper = GovernorKeeper("performance", Machine(board), service)
    keeper.keep()
    assert governors(board) == ["performance", "performance"]
    assert Machine(board).governor() == "performance"
    keeper.keep()
    told = [one.getMessage() for one in caplog.records if one.name == GovernorKeeper.__module__]
    assert told == ["governor performance: ok: performance"]


def test_a_governor_that_is_taken_away_is_asked_for_again_but_not_all_the_time(
    board: Path, service: Path
) -> None:
    now = [0.0]
    keeper = GovernorKeeper("performance", Machine(board), service, lambda: now[0])
    keeper.keep()
    (board / POLICIES / "policy0/scaling_governor").write_text("schedutil\n")
    keeper.keep()
    assert governors(board) == ["schedutil", "performance"]
    now[0] += 61
    keeper.keep()
    assert governors(board) == ["performance", "performance"]


@pytest.mark.parametrize(
    ("wanted", "says"),
    [("powersave", "refused: policy0 offers performance, schedutil, and not powersave")],
)
def test_what_the_helper_refuses_is_said_once(
    board: Path, service: Path, caplog: pytest.LogCaptureFixture, wanted: str, says: str
) -> None:
    now = [0.0]
    keeper = GovernorKeeper(wanted, Machine(board), service, lambda: now[0])
    for _ in range(3):
        keeper.keep()
        now[0] += 100
    assert [one.getMessage() for one in caplog.records] == [f"governor {wanted}: {says}"]


def test_a_helper_that_is_not_there_costs_a_line_in_the_log(
    board: Path, caplog: pytest.LogCaptureFixture
) -> None:
    GovernorKeeper("performance", Machine(board), board / "nobody.sock").keep()
    (said,) = [one.getMessage() for one in caplog.records]
    assert "does not answer" in said
    assert governors(board) == ["schedutil", "schedutil"]


def test_without_a_wish_nothing_is_asked(board: Path, caplog: pytest.LogCaptureFixture) -> None:
    GovernorKeeper(None, Machine(board), board / "nobody.sock").keep()
    assert caplog.records == []
