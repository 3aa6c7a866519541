"""`tunebook tracker` is a tracker at one address until it is stopped."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from local_ports import holding_port

from tunebook.cache.errors import BoardError, ExitCode
from tunebook.service.cli import run
from tunebook.workers.boards.tracker import TrackerAddress, parse_tracker, query_tracker

COMMAND = [sys.executable, "-m", "tunebook.service.cli", "tracker"]
Start = Callable[..., "subprocess.Popen[str]"]
PATIENCE = 60.0


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as ends:

        def begin(*options: str) -> subprocess.Popen[str]:
            tracker = subprocess.Popen(
                [*COMMAND, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            ends.callback(tracker.communicate)
            ends.callback(tracker.kill)
            return tracker

        yield begin


def place_of(tracker: subprocess.Popen[str]) -> TrackerAddress:
    assert tracker.stdout is not None
    return parse_tracker(tracker.stdout.readline().split()[-1])


def test_it_listens_where_it_says_until_it_is_stopped(start: Start) -> None:
    tracker = start("--port", "0")
    place = place_of(tracker)
    assert place.host == "127.0.0.1"
    assert query_tracker(place, PATIENCE).boards == ()
    tracker.terminate()
    assert tracker.wait(timeout=60) == ExitCode.OK
    assert tracker.stderr is not None
    assert tracker.stderr.read() == ""
    with pytest.raises(BoardError):
        query_tracker(place)


def test_it_listens_at_the_address_that_is_named_and_nowhere_else(start: Start) -> None:
    # So that nobody else listens there either.
    with holding_port() as port:
        place = place_of(start("--host", "127.0.0.3", "--port", str(port)))
        assert query_tracker(place, PATIENCE).boards == ()
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def test_at_all_addresses_it_says_what_that_means_in_one_line(start: Start) -> None:
    tracker = start("--host", "0.0.0.0", "--port", "0")
    # It says where it listens before all that it needs is loaded.
    query_tracker(place_of(tracker), PATIENCE)
    tracker.terminate()
    assert tracker.stderr is not None
    said = tracker.stderr.read()
    assert said.count("\n") == 1
    assert "runs what it is sent" in said


@pytest.mark.parametrize(
    ("host", "says"),
    [("0", "means all addresses"), ("wg-nowhere", "no address of this machine")],
)
def test_a_place_that_is_not_named_is_refused(
    host: str, says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVM_USE_RUNTIME_LIB", "0")
    assert run(["tracker", "--host", host]) == ExitCode.USAGE
    assert says in capsys.readouterr().err


def test_a_port_that_is_taken_is_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVM_USE_RUNTIME_LIB", "0")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert run(["tracker", "--port", str(taken.getsockname()[1])]) == ExitCode.NO_BOARD
    assert "name another address or port" in capsys.readouterr().err
