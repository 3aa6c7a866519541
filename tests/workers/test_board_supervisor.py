"""A board that ought to be at its tracker is there again soon, or the user is told why not."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from tvm.rpc import base as rpc

from tunebook.cache.errors import BoardError
from tunebook.tuner.trials.trials import BoardAddress
from tunebook.workers.boards import board_supervisor
from tunebook.workers.boards.board_supervisor import (
    BoardSupervisor,
    ServerCommand,
    SupervisionLimits,
)
from tunebook.workers.boards.host_server import host_server
from tunebook.workers.boards.tracker import TrackerAddress, query_tracker, running_tracker

# A busy machine may hold up a server that is well for seconds: it must not be replaced for that.
QUICK = SupervisionLimits(appear=60, silence=60, first_pause=0.05)
# For servers that hang.
IMPATIENT = replace(QUICK, silence=10)


@pytest.fixture
def limits():
    return QUICK


@pytest.fixture
def supervised(in_use, limits):
    with (
        running_tracker() as tracker,
        BoardSupervisor(host_server(1), tracker, "pi", name="pi-3", limits=limits),
    ):
        yield in_use(BoardAddress(tracker.host, tracker.port, "pi"))


@pytest.mark.parametrize(
    ("blow", "limits"),
    [
        pytest.param(signal.SIGKILL, QUICK, id="killed"),
        # Its process lives and its connection stands: only the beat shows it.
        pytest.param(signal.SIGSTOP, IMPATIENT, id="hung", marks=pytest.mark.slow),
    ],
)
def test_an_server_that_serves_nobody_is_replaced(supervised, kernel, eventually, is_gone, blow):
    before = supervised.registered()
    os.kill(before.pid, blow)
    eventually(lambda: is_gone(before.pid), "the old server is gone")
    eventually(lambda: _replaced(supervised, before.pid), "another server is registered")
    assert supervised.registered().name == "pi-3"
    assert supervised.call(kernel("number++"), 41) == 42


def test_a_board_comes_back_where_its_files_were_tidied_away(kernel, eventually, in_use) -> None:
    with running_tracker() as tracker, _kept(tracker) as supervisor:
        board = in_use(BoardAddress(tracker.host, tracker.port, "pi"))
        before = board.registered()
        shutil.rmtree(supervisor._log.parent)
        os.kill(before.pid, signal.SIGKILL)
        eventually(lambda: _replaced(board, before.pid), "another server is registered")
        assert board.call(kernel("number++"), 41) == 42
        folder = supervisor._log.parent
    assert not folder.exists()


def test_a_board_comes_back_where_the_disk_is_full(eventually, in_use) -> None:
    with running_tracker() as tracker, _kept(tracker) as supervisor:
        board = in_use(BoardAddress(tracker.host, tracker.port, "pi"))
        before = board.registered()
        supervisor._log.unlink()
        supervisor._log.symlink_to("/dev/full")
        os.kill(before.pid, signal.SIGKILL)
        eventually(lambda: _replaced(board, before.pid), "another server is registered")


def _kept(tracker: TrackerAddress) -> BoardSupervisor:
    return BoardSupervisor(host_server(1), tracker, "pi", limits=QUICK)


def _replaced(supervised, pid: int) -> bool:
    boards = query_tracker(supervised.tracker, timeout=60).boards_of("pi")
    return [board.pid for board in boards] not in ([], [pid])


def test_a_killed_server_takes_its_session_along(supervised, kernel, eventually, is_gone) -> None:
    session = supervised.session()
    session.upload(str(library := kernel("number = getpid()")))
    pid = session.load_module(library.name)["main"](0)
    os.kill(supervised.registered().pid, signal.SIGKILL)
    eventually(lambda: is_gone(pid), "the session's process is gone")


@pytest.mark.slow
@pytest.mark.parametrize("limits", [IMPATIENT])
def test_a_serving_server_is_left_alone(supervised, kernel) -> None:
    """Its session lasts longer than the silence after which a server counts as hung."""
    server = supervised.registered().pid
    assert supervised.call(kernel("sleep(12)"), 42) == 42
    assert supervised.registered().pid == server


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ([sys.executable, "-c", "raise SystemExit('no such core: a999')"], "no such core: a999"),
        (["/nonexistent/python"], "cannot be started"),
    ],
)
def test_an_server_that_never_comes_up_is_an_error_with_its_last_words(command, words) -> None:
    server = ServerCommand(command, dict(os.environ))
    with running_tracker() as tracker, pytest.raises(BoardError) as error:
        BoardSupervisor(server, tracker, "pi", limits=QUICK).start()
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_an_server_that_hangs_at_start_is_an_error(eventually) -> None:
    server = ServerCommand([sys.executable, "-c", "import time; time.sleep(600)"], dict(os.environ))
    limits = SupervisionLimits(appear=1)
    with running_tracker() as tracker, pytest.raises(BoardError, match="came up"):
        BoardSupervisor(server, tracker, "pi", limits=limits).start()


def test_a_tracker_that_is_not_there_is_an_error() -> None:
    nobody = TrackerAddress("127.0.0.1", 1)
    with pytest.raises(BoardError, match=r"tracker at 127\.0\.0\.1:1 does not answer"):
        BoardSupervisor(host_server(1), nobody, "pi").start()


def test_a_servers_log_does_not_fill_the_board(eventually, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(board_supervisor, "_LONGEST_LOG", 10_000)
    grown = tmp_path / "grown"
    script = (
        "import pathlib, time\n"
        "print('x' * 20_000, flush=True)\n"
        f"pathlib.Path({str(grown)!r}).touch()\n"
        "time.sleep(600)\n"
    )
    server = ServerCommand([sys.executable, "-c", script], dict(os.environ))
    with running_tracker() as tracker:
        supervisor = BoardSupervisor(server, tracker, "pi", limits=QUICK)
        supervisor.begin()
        log = supervisor._log
        eventually(grown.exists, "it has grown")
        eventually(lambda: log.stat().st_size == 0, "it is begun anew")
        supervisor.stop()


def test_another_machines_board_of_that_name_is_told_of(supervised, eventually, caplog) -> None:
    """As one has that was made from a copy of this one's card."""
    twin = {"name": "pi-3", "boot": "another"}
    with (
        _registered(supervised.tracker, "pi", "192.0.2.7", {**twin, "name": "pi-4"}),
        _registered(supervised.tracker, "pi4", "192.0.2.8", twin),
        # Itself before its machine's last start.
        _registered(supervised.tracker, "pi", "127.0.0.1", twin),
        _registered(supervised.tracker, "pi.quarantined", "192.0.2.9", twin),
    ):
        eventually(lambda: "called pi-3 too" in caplog.text, "it is told of")
    assert "another board at 192.0.2.9" in caplog.text


@contextmanager
def _registered(
    tracker: TrackerAddress, board_class: str, host: str, told: dict[str, str]
) -> Iterator[None]:
    """A server of another machine, as the tracker has it."""
    with socket.create_connection((tracker.host, tracker.port)) as connection:
        connection.sendall(struct.pack("<i", rpc.RPC_TRACKER_MAGIC))
        rpc.recvall(connection, struct.calcsize("<i"))
        info = {"key": f"server:{board_class}", "addr": [host, 9090], "tunebook": told}
        rpc.sendjson(connection, [rpc.TrackerCode.UPDATE_INFO, info])
        rpc.recvjson(connection)
        yield
