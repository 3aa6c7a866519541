"""Which boards a command uses: those it names, an emulated one, or this machine."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import psutil

from tunebook.cache.board_names import check_own_class
from tunebook.cache.boards.registrations import RegisteredBoard
from tunebook.cache.errors import BoardError, UsageError
from tunebook.cache.queue.submissions import is_emulated
from tunebook.cache.targets import MissingCoresError, Target
from tunebook.tuner.board_features import needed_features
from tunebook.tuner.llvm_targets import resolve_target, runs_here
from tunebook.tuner.trials.trials import BoardAddress
from tunebook.workers.boards.emulated_board import emulated_board
from tunebook.workers.boards.fitting_boards import why_none_fits
from tunebook.workers.boards.guest_server import EMULATED_CLASS, EMULATED_CORES
from tunebook.workers.boards.local_board import LOCAL_BOARD_CLASS, local_board
from tunebook.workers.boards.server.machine import boot_id
from tunebook.workers.boards.tracker import TrackerAddress, parse_tracker, query_tracker


@dataclass(frozen=True)
class BoardPlan:
    """Boards that fit a target; `open` starts those that are ours, and stops them on leaving."""

    board_class: str
    emulated: bool
    open: Callable[[], AbstractContextManager[BoardAddress]]


def target_for_boards(spelling: str, boards: str | None, tracker: str | None) -> Target:
    """The target of a spelling; one without -num-cores gets those of the board class, the fewest
    that a board of it has.

    Raises TargetError where neither says, and BoardError when the tracker does not answer.
    """
    try:
        return resolve_target(spelling)
    except MissingCoresError:
        cores = _cores_of_class(boards, tracker)
        if cores is None:
            raise
        return resolve_target(spelling, num_cores=cores)


def _cores_of_class(boards: str | None, tracker: str | None) -> int | None:
    if boards is not None and tracker is not None:
        registered = query_tracker(parse_tracker(tracker)).boards_of(boards)
        return min((board.cores for board in registered if board.cores), default=None)
    return EMULATED_CORES if boards == EMULATED_CLASS else None


def plan_boards(target: Target, boards: str | None, tracker: str | None) -> BoardPlan:
    """The boards of class `boards` at `tracker` (HOST:PORT); without a tracker an emulated one
    where `boards` says so, else this machine. Starts nothing.

    Raises UsageError for options that do not fit together, BoardError where no board fits, and
    where the tracker does not answer.
    """
    if tracker is not None:
        if boards is None:
            raise UsageError("--tracker needs --boards CLASS: the boards to use at that tracker")
        check_own_class(boards)
        address = parse_tracker(tracker)
        misfit = why_none_fits(target, boards, address, query_tracker(address).boards_of(boards))
        if misfit is not None:
            raise BoardError(misfit)
        features = needed_features(target)
        return BoardPlan(
            boards, is_emulated(boards), lambda: remote_board(boards, address, features)
        )
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


@contextmanager
def remote_board(
    board_class: str, tracker: TrackerAddress, features: frozenset[str] = frozenset()
) -> Iterator[BoardAddress]:
    """The boards of a class at a tracker; of those that tell their CPU's features only those that
    have these. Raises BoardError when the tracker does not answer."""
    boards = query_tracker(tracker).boards_of(board_class)
    emulated = is_emulated(board_class)
    # What an emulated board's timings are worth, nothing that runs beside it takes away.
    here = not emulated and any(is_here(board, tracker) for board in boards)
    yield BoardAddress(
        tracker.host,
        tracker.port,
        board_class,
        shares_host=here,
        emulated=emulated,
        features=features,
    )


def is_here(board: RegisteredBoard, tracker: TrackerAddress) -> bool:
    """Whether a board shares the processor with us. Its kernel tells, whatever address it is
    reached under: that of a tunnel's end is of this machine. A server that tells none is known by
    its address."""
    if board.boot:
        return board.boot == boot_id()
    return is_this_machine(board.host or tracker.host)


def is_this_machine(host: str) -> bool:
    """Whether this address is one of this machine's."""
    try:
        found = {str(address[4][0]) for address in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):
        return False
    own = {one.address for addresses in psutil.net_if_addrs().values() for one in addresses}
    return any(address in own or ipaddress.ip_address(address).is_loopback for address in found)
