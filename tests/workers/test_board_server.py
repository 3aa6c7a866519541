"""A board outlives what is run on it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress

import psutil
import pytest

from tunebook.tuner.trials.trials import BoardAddress
from tunebook.workers.boards import board_server
from tunebook.workers.boards.board_supervisor import BoardSupervisor, ServerCommand
from tunebook.workers.boards.host_server import host_server
from tunebook.workers.boards.server.handshake import receive
from tunebook.workers.boards.server.sessions import SESSION_ENDED
from tunebook.workers.boards.tracker import query_tracker, running_tracker

ENDLESS = "for (volatile int i = 0;; i++)"
# Calls a kernel in a session without a time limit.
CLIENT = """
import sys
from tvm import rpc

host, port, board_class, library = sys.argv[1:]
session = rpc.connect_tracker(host, int(port)).request(board_class)
session.upload(library, "kernel.so")
session.load_module("kernel.so")["main"](1)
"""


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("*(volatile int*)8 = 1", "SIGSEGV"),
        ("__builtin_trap()", "SIGILL"),
        ("abort()", "SIGABRT"),
        # Free for any use, and without a name.
        ("extern int raise(int); raise(40)", "signal 40"),
    ],
)
def test_a_crash_costs_one_session_and_is_named(board, kernel, body, name) -> None:
    server = board.registered().pid
    with pytest.raises(Exception, match=f"{SESSION_ENDED}.*{name}"):
        board.call(kernel(body), 1)
    assert board.call(kernel("number++"), 41) == 42
    assert board.registered().pid == server


def test_a_kernel_that_leaves_the_process_is_told_by_its_exit_code(board, kernel) -> None:
    with pytest.raises(Exception, match="exit code 7"):
        board.call(kernel("_exit(7)"), 1)
    assert board.call(kernel("number++"), 41) == 42


def test_an_endless_kernel_ends_at_the_sessions_limit(board, kernel) -> None:
    with pytest.raises(Exception, match=r"time limit of 0\.5 s"):
        board.call(kernel(ENDLESS), 1, limit=0.5)
    assert board.call(kernel("number++"), 41) == 42


def test_an_endless_kernel_ends_when_its_client_is_gone(
    board, kernel, eventually, tmp_path
) -> None:
    begun = tmp_path / "begun"
    library = kernel(f'extern int creat(const char*, int); creat("{begun}", 0600); {ENDLESS}')
    at = (board.tracker.host, str(board.tracker.port), board.address.board_class)
    client = subprocess.Popen([sys.executable, "-c", CLIENT, *at, library])
    eventually(begun.exists, "the endless kernel runs")
    client.kill()
    client.wait()
    assert board.call(kernel("number++"), 41) == 42


def test_what_a_session_started_ends_with_it(board, kernel, eventually, is_gone) -> None:
    left_running = kernel("number = fork(); if (number == 0) { sleep(600); _exit(0); }")
    pid = board.call(left_running, 0)
    eventually(lambda: is_gone(pid), "the process that the kernel had started ended")


def test_the_files_of_one_session_are_not_there_in_the_next(board) -> None:
    paths = []
    for _ in range(2):
        session = board.session()
        paths.append(session.get_function("tvm.rpc.server.workpath")("kernel.so"))
        del session
    assert paths[0] != paths[1]


@pytest.mark.parametrize(
    "sent",
    [b"GET / HTTP/1.1\r\n\r\n", b"", b"\x71\xf2\x0f\x00\x04\x00\x00\x00\xff\xff\xff\xff"],
    ids=["http", "nothing", "no text"],
)
def test_strangers_at_the_boards_port_do_no_harm(board, kernel, sent) -> None:
    at = board.registered()
    with socket.create_connection((at.host, at.port)) as stranger:
        stranger.sendall(sent)
    assert board.call(kernel("number++"), 41) == 42


@pytest.mark.slow
def test_a_board_that_was_asked_for_and_never_used_is_offered_again(board, kernel) -> None:
    from tvm.rpc import base, connect_tracker

    tracker = connect_tracker(board.tracker.host, board.tracker.port)
    base.sendjson(tracker._sock, [base.TrackerCode.REQUEST, board.address.board_class, "", 1])
    assert base.recvjson(tracker._sock)[0] == base.TrackerCode.SUCCESS
    assert board.call(kernel("number++"), 41) == 42


def test_a_serving_board_says_so_and_keeps_its_beat(board, kernel, eventually) -> None:
    session = board.session()
    eventually(lambda: board.registered().serving, "the board says that it serves")
    beat = board.registered().beat
    eventually(lambda: board.registered().beat > beat, "its beat moves")
    del session
    eventually(lambda: not board.registered().serving, "the board says that it is free")


def test_a_board_tells_its_name_and_what_may_disturb_it(board) -> None:
    session = board.session()
    state = json.loads(session.get_function("tunebook.board.state")())
    assert state.keys() == {"name", "load", "governor", "frequency_khz", "temperature_c"}
    assert state["load"] >= 0
    name = session.get_function("tunebook.board.name")()
    assert name == state["name"] == board.registered().name


def test_a_board_listens_on_loopback_only(board) -> None:
    server = psutil.Process(board.registered().pid)
    listening = [c.laddr.ip for c in server.net_connections() if c.status == psutil.CONN_LISTEN]
    assert listening == ["127.0.0.1"]


def test_a_board_runs_without_the_compiler(board) -> None:
    """A board has the memory for a runtime; the compiler would double its start-up."""
    libraries = {m.path.rsplit("/")[-1] for m in _maps(board.registered().pid)}
    assert "libtvm_runtime_extra.so" in libraries
    assert "libtvm_compiler.so" not in libraries


def _maps(pid: int) -> list:
    return psutil.Process(pid).memory_maps()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--tracker", "nowhere", "--key", "pi"], "expected HOST:PORT"),
        (["--tracker", "127.0.0.1:1", "--key", "my pi"], "no spaces"),
        (["--tracker", "127.0.0.1:1"], "--key"),
    ],
)
def test_wrong_options_are_refused_in_words(options, words, capsys) -> None:
    with pytest.raises(SystemExit) as stop:
        board_server.main(options)
    assert stop.value.code == 2
    assert words in capsys.readouterr().err


def test_an_server_whose_parent_is_already_gone_does_not_start() -> None:
    command = [sys.executable, "-m", board_server.__name__, "--tracker=127.0.0.1:1", "--key=pi"]
    done = subprocess.run([*command, "--parent-pid=1"], capture_output=True, text=True)
    assert done.returncode != 0
    assert "is gone" in done.stderr


def test_an_server_waits_for_a_tracker_that_is_not_there_yet(
    tmp_path, eventually, held_port
) -> None:
    log = tmp_path / "log"
    options = [f"--tracker=127.0.0.1:{held_port}", "--key=pi"]
    command = [sys.executable, "-m", board_server.__name__, *options]
    with log.open("w") as output, subprocess.Popen(command, stderr=output) as server:
        try:
            eventually(lambda: "trying again" in log.read_text(), "the server misses its tracker")
            with running_tracker(port=held_port) as address:
                eventually(lambda: query_tracker(address).boards_of("pi"), "the board is there")
        finally:
            server.send_signal(signal.SIGTERM)
    assert server.returncode == 0


def test_a_tracker_does_not_gather_the_offers_of_all_time(kernel, in_use, eventually) -> None:
    """A board registers anew after many of them, over another connection."""
    script = (
        "from tunebook.workers.boards import board_server\n"
        "from tunebook.workers.boards.server import serving\n"
        "serving.MOST_OFFERS = 3\n"
        "board_server.main()\n"
    )
    server = ServerCommand([sys.executable, "-c", script], host_server(1).environment)
    with running_tracker() as tracker, BoardSupervisor(server, tracker, "pi"):
        board = in_use(BoardAddress(tracker.host, tracker.port, "pi"))
        pid = board.registered().pid

        def connections() -> set[int]:
            """The server's ends of those to the tracker."""
            return {
                one.laddr.port
                for one in psutil.Process(pid).net_connections()
                if one.raddr and one.raddr.port == tracker.port
            }

        before = connections()
        assert len(before) == 1
        for _ in range(3):
            assert board.call(kernel("number++"), 41) == 42
        eventually(lambda: connections() - before, "it has registered anew")
        eventually(lambda: not connections() & before, "and the old connection is gone")
        eventually(lambda: len(query_tracker(tracker).boards_of("pi")) == 1, "it is there once")
        assert board.call(kernel("number++"), 41) == 42
        assert board.registered().pid == pid


def test_whoever_sends_a_byte_at_a_time_holds_no_board_for_long() -> None:
    def dribble() -> None:
        # Until the other end is closed.
        with theirs, suppress(ConnectionError):
            while True:
                theirs.sendall(b"0")
                time.sleep(0.01)

    ours, theirs = socket.socketpair()
    dribbling = threading.Thread(target=dribble)
    with ours:
        dribbling.start()
        with pytest.raises(TimeoutError):
            receive(ours, 1_000_000, time.monotonic() + 0.1)
    dribbling.join()
