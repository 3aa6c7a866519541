"""Kernels run with the rights of a user of their own, who may do nothing else."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tunebook.tuner.trials.trials import BoardAddress
from tunebook.workers.boards.board_supervisor import BoardSupervisor
from tunebook.workers.boards.host_server import host_server
from tunebook.workers.boards.server.rights import user_and_group
from tunebook.workers.boards.tracker import running_tracker

USER = "nobody"
# Keeps a board until it is killed.
AGENT = """
import signal, sys
from tunebook.workers.boards.board_supervisor import BoardSupervisor
from tunebook.workers.boards.host_server import host_server
from tunebook.workers.boards.tracker import parse_tracker
BoardSupervisor(host_server(1), parse_tracker(sys.argv[1]), "pi", run_as=sys.argv[2]).start()
signal.pause()
"""
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start it as another user")


@pytest.fixture(scope="module")
def other_user(in_use) -> Iterator[object]:
    with (
        running_tracker() as tracker,
        BoardSupervisor(host_server(1), tracker, "pi", run_as=USER),
    ):
        yield in_use(BoardAddress(tracker.host, tracker.port, "pi"))


@pytest.mark.parametrize("ask", ["getuid", "geteuid", "getgid", "getegid"])
def test_a_kernel_runs_as_that_user(other_user, kernel, ask: str) -> None:
    known = pwd.getpwnam(USER)
    number = other_user.call(kernel(f"number = {ask}()"), 0)
    assert number == (known.pw_uid if "uid" in ask else known.pw_gid)


def test_a_kernel_cannot_have_roots_rights_back(other_user, kernel) -> None:
    attempts = "number = (setuid(0) == 0) + (setgid(0) == 0) + (seteuid(0) == 0)"
    assert other_user.call(kernel(attempts), 1) == 0


def test_a_kernel_has_no_group_of_ours(other_user, kernel) -> None:
    assert other_user.call(kernel("number = getgroups(0, 0)"), 1) == 0


def test_a_kernel_reads_no_file_of_ours(other_user, kernel, tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("tbk_secret")
    secret.chmod(0o600)
    assert other_user.call(kernel(f'number = access("{secret}", R_OK)'), 0) == -1


def test_a_kernel_ends_neither_us_nor_its_boards_agent(other_user, kernel) -> None:
    assert (
        other_user.call(kernel(f"extern int kill(int, int); number = kill({os.getpid()}, 0)"), 0)
        == -1
    )


def test_the_server_and_its_sessions_cannot_gain_rights_by_a_program(other_user) -> None:
    status = Path(f"/proc/{other_user.registered().pid}/status").read_text()
    assert "NoNewPrivs:\t1" in status


def test_a_crash_costs_one_session(other_user, kernel) -> None:
    with pytest.raises(Exception, match="SIGSEGV"):
        other_user.call(kernel("*(volatile int*)8 = 1"), 1)
    assert other_user.call(kernel("number++"), 41) == 42


def test_a_server_of_another_user_ends_with_us_too(
    in_use, kernel, eventually: Callable[..., None], is_gone: Callable[[int], bool]
) -> None:
    """The kernel forgets what it was told of the parent where a process changes its user."""
    with running_tracker() as tracker:
        agent = subprocess.Popen([sys.executable, "-c", AGENT, str(tracker), USER])
        try:
            board = in_use(BoardAddress(tracker.host, tracker.port, "pi"))
            eventually(lambda: _there(board), "the board is registered")
            server = board.registered().pid
            assert psutil.Process(server).username() == USER
        finally:
            agent.kill()
            agent.wait()
        eventually(lambda: is_gone(server), "the server is gone")


def _there(board) -> bool:
    try:
        board.registered()
    except ValueError:
        return False
    return True


def test_its_files_are_its_own_and_gone_afterwards(other_user, eventually) -> None:
    session = other_user.session()
    folder = Path(session.get_function("tvm.rpc.server.workpath")("kernel.so")).parent
    assert folder.owner() == folder.parent.owner() == USER
    assert folder.parent.parent.owner() != USER, "it cannot put a log of its own in ours' place"
    session.get_function("CloseRPCConnection")()
    eventually(lambda: not folder.exists(), "the session's files are gone")


@pytest.mark.parametrize("user", ["root", "no-such-user", "0:0", "1000:0", "-1:-1", "4294967295:1"])
def test_who_is_root_or_nobody_at_all_is_refused(user: str) -> None:
    with pytest.raises(ValueError, match=user):
        user_and_group(user)
