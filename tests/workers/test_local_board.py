"""This machine as a board: there while it is used, and nothing left of it afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psutil
import pytest

from tunebook.workers.boards.local_board import local_board

# Says when it has a session; what it does then is appended.
USER = """
import sys, time
from tvm import rpc
from tunebook.workers.boards.local_board import local_board

with local_board(1) as board:
    tracker = rpc.connect_tracker(board.tracker_host, board.tracker_port)
    session = tracker.request(board.board_class)
    session.upload(sys.argv[1])
    kernel = session.load_module("kernel-0.so")["main"]
    print("in use", flush=True)
"""


def children() -> set[int]:
    return {child.pid for child in psutil.Process(os.getpid()).children(recursive=True)}


def test_a_local_board_is_this_machine(board, kernel) -> None:
    assert board.address.shares_host
    assert not board.address.emulated
    assert board.address.board_class == "local"
    assert board.call(kernel("number = getppid()"), 0) == board.registered().pid


def test_two_local_boards_do_not_meet(board, in_use) -> None:
    with local_board(1) as address:
        other = in_use(address)
        assert other.tracker != board.tracker
        assert other.registered().pid != board.registered().pid


def test_nothing_runs_after_leaving() -> None:
    before = children()
    with local_board(1):
        assert len(children() - before) == 2  # tracker and server
    # A session of the test before may end meanwhile.
    assert children() <= before


def test_nothing_runs_after_an_error() -> None:
    before = children()
    with pytest.raises(RuntimeError, match="ours"), local_board(1):
        raise RuntimeError("ours")
    assert children() <= before


@pytest.mark.parametrize(
    ("blow", "meanwhile"),
    [
        (signal.SIGKILL, "kernel(1)"),
        (signal.SIGTERM, "kernel(1)"),
        (signal.SIGINT, "time.sleep(600)"),
    ],
)
def test_nothing_survives_the_process_that_used_it(
    kernel, eventually, is_gone, blow, meanwhile
) -> None:
    library = kernel("for (volatile int i = 0;; i++)")
    command = [sys.executable, "-c", USER + f"    {meanwhile}\n", library]
    user = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # Where the tests run in the background, SIGINT is ignored and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert user.stdout is not None
    assert user.stdout.readline() == b"in use\n"
    family = [child.pid for child in psutil.Process(user.pid).children(recursive=True)]
    assert len(family) == 3  # tracker, server and the session's process
    user.send_signal(blow)
    user.wait()
    for pid in family:
        eventually(lambda pid=pid: is_gone(pid), f"process {pid} is gone")


def test_a_board_outlives_the_thread_that_made_it(kernel, in_use) -> None:
    """To the kernel, a child's parent is the thread that started it."""
    with ExitStack() as stack:
        with ThreadPoolExecutor(1) as short_lived:
            address = short_lived.submit(stack.enter_context, local_board(1)).result()
        board = in_use(address)
        server = board.registered().pid
        assert board.call(kernel("number++"), 41) == 42
        assert board.registered().pid == server
