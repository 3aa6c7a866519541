"""Which boards a command uses: those it names, an emulated one, or this machine."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from tunebook.cache.errors import BoardError, UsageError
from tunebook.cache.targets import Target
from tunebook.tuner.llvm_targets import runs_here
from tunebook.tuner.trials import BoardAddress
from tunebook.workers.emulated_board import EMULATED_CLASS, emulated_board
from tunebook.workers.local_board import local_board


@contextmanager
def boards_for(target: Target, boards: str | None, tracker: str | None) -> Iterator[BoardAddress]:
    """The boards of class `boards` at `tracker` (HOST:PORT), started and stopped where it is ours.

    Without a tracker, this machine is the board, or an emulated one where `boards` says so.
    Raises UsageError for a tracker without a class, BoardError where no board fits the target.
    """
    if tracker is not None:
        if boards is None:
            raise UsageError("--tracker needs --boards CLASS: the boards to use at that tracker")
        yield _remote(boards, tracker)
    elif boards == EMULATED_CLASS:
        with emulated_board(cpu=_emulated_cpu(target)) as address:
            yield address
    elif boards is not None:
        raise UsageError(
            f"--boards {boards} needs --tracker HOST:PORT; without one only "
            f"'{EMULATED_CLASS}' can be named"
        )
    elif runs_here(target):
        with local_board(target.num_cores) as address:
            yield address
    else:
        raise BoardError(
            f"this machine cannot run code for {target.mtriple}: name boards that can with "
            f"--boards CLASS --tracker HOST:PORT, or --boards {EMULATED_CLASS}"
        )


def _emulated_cpu(target: Target) -> str:
    if not target.mtriple.startswith("aarch64"):
        raise BoardError(f"the emulated board is an AArch64 one and cannot run {target.mtriple}")
    return "max"


def _remote(board_class: str, tracker: str) -> BoardAddress:
    host, colon, port = tracker.rpartition(":")
    if not colon or not host or not port.isdigit():
        raise UsageError(f"--tracker takes HOST:PORT, not '{tracker}'")
    return BoardAddress(host, int(port), board_class, shares_host=_is_loopback(host))


def _is_loopback(host: str) -> bool:
    """A tracker on loopback has boards on loopback: they are this machine."""
    try:
        return ipaddress.ip_address(socket.gethostbyname(host)).is_loopback
    except OSError:
        return False
