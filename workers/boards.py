"""Which boards a command uses: those it names, an emulated one, or this machine."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from tunebook.cache.errors import BoardError, UsageError
from tunebook.cache.targets import Target
from tunebook.tuner.llvm_targets import runs_here
from tunebook.tuner.trials import BoardAddress
from tunebook.workers.emulated_board import EMULATED_CLASS, emulated_board
from tunebook.workers.local_board import LOCAL_BOARD_CLASS, local_board


@dataclass(frozen=True)
class BoardPlan:
    """Boards that fit a target; `open` starts those that are ours, and stops them on leaving."""

    board_class: str
    emulated: bool
    open: Callable[[], AbstractContextManager[BoardAddress]]


def plan_boards(target: Target, boards: str | None, tracker: str | None) -> BoardPlan:
    """The boards of class `boards` at `tracker` (HOST:PORT); without a tracker an emulated one
    where `boards` says so, else this machine. Starts nothing.

    Raises UsageError for options that do not fit together, BoardError where no board fits.
    """
    if tracker is not None:
        if boards is None:
            raise UsageError("--tracker needs --boards CLASS: the boards to use at that tracker")
        address = _remote(boards, tracker)
        return BoardPlan(boards, False, lambda: nullcontext(address))
    if boards == EMULATED_CLASS:
        if not target.mtriple.startswith("aarch64"):
            raise BoardError(f"the emulated board is an AArch64 one, and cannot run {target}")
        return BoardPlan(EMULATED_CLASS, True, emulated_board)
    if boards is not None:
        raise UsageError(
            f"--boards {boards} needs --tracker HOST:PORT; without one only "
            f"'{EMULATED_CLASS}' can be named"
        )
    if not runs_here(target):
        raise BoardError(
            f"this machine cannot run code for {target.mtriple}: name boards that can with "
            f"--boards CLASS --tracker HOST:PORT, or --boards {EMULATED_CLASS}"
        )
    return BoardPlan(LOCAL_BOARD_CLASS, False, lambda: local_board(target.num_cores))


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
