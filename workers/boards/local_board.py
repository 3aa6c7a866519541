"""This machine as a board: a tracker and a supervised server, both on loopback.

The same path as a remote board, so that nothing is measured in another way here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tunebook.tuner.trials.trials import BoardAddress
from tunebook.workers.boards.board_supervisor import BoardSupervisor
from tunebook.workers.boards.host_server import host_server
from tunebook.workers.boards.tracker import running_tracker

LOCAL_BOARD_CLASS = "local"


@contextmanager
def local_board(num_cores: int) -> Iterator[BoardAddress]:
    """A board of class `local`, registered and stopped on exit; it dies with this process.

    `num_cores` is the size of its thread pool until a client sets another. Raises BoardError.
    """
    with (
        running_tracker() as tracker,
        BoardSupervisor(host_server(num_cores), tracker, LOCAL_BOARD_CLASS),
    ):
        yield BoardAddress(tracker.host, tracker.port, LOCAL_BOARD_CLASS, shares_host=True)
