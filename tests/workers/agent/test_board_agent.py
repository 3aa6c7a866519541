"""An agent keeps its board whatever goes away, and tells the coordinator how it is."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kept_boards import CLASS, IMPATIENT, NAME, Coordinator, KeptBoard
from local_ports import holding_port

from tunebook.cache.board_names import quarantine_class
from tunebook.tuner.trials.trials import BoardAddress
from tunebook.workers.boards.board_supervisor import ServerCommand
from tunebook.workers.boards.tracker import TrackerAddress, running_tracker

Eventually = Callable[..., None]
KeepBoard = Callable[..., KeptBoard]
IN_QUARANTINE = quarantine_class(CLASS)


def test_a_server_that_was_killed_is_replaced(
    keep_board: KeepBoard, eventually: Eventually, is_gone: Callable[[int], bool]
) -> None:
    with running_tracker() as tracker:
        board = keep_board(tracker)
        eventually(board.find, "the board is registered")
        before = board.registered.pid
        os.kill(before, signal.SIGKILL)
        eventually(lambda: is_gone(before), "the old server is gone")
        eventually(lambda: board.find_other_than(before), "another is registered")
        assert board.registered.name == NAME
        board.end()
        eventually(lambda: board.find() is None, "the tracker has heard of it")


def test_an_agent_waits_for_a_tracker_that_comes_later_and_says_so(
    keep_board: KeepBoard,
    eventually: Eventually,
    held_port: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    board = keep_board(TrackerAddress("127.0.0.1", held_port))
    eventually(lambda: "does not answer" in caplog.text, "the tracker is missed in the log")
    with running_tracker(port=held_port):
        eventually(board.find, "the board is registered")
        assert caplog.text.count("does not answer") == 1


def test_a_board_is_back_at_a_tracker_that_was_started_again(
    keep_board: KeepBoard, eventually: Eventually, held_port: int
) -> None:
    with running_tracker(port=held_port) as tracker:
        board = keep_board(tracker)
        eventually(board.find, "the board is registered")
        server = board.registered.pid
    with running_tracker(port=held_port):
        eventually(board.find, "the board is registered again")
        assert board.registered.pid == server, "nothing was wrong with its server"


@pytest.mark.slow
def test_a_server_that_hung_while_the_tracker_was_away_is_replaced_too(
    keep_board: KeepBoard, eventually: Eventually, held_port: int
) -> None:
    """The tracker that comes back has never seen it, so there is no beat that stands still."""
    with running_tracker(port=held_port) as tracker:
        board = keep_board(tracker, limits=IMPATIENT)
        eventually(board.find, "the board is registered")
        server = board.registered.pid
        os.kill(server, signal.SIGSTOP)
    with running_tracker(port=held_port):
        # One that hung before the agent saw it has as long as servers have to appear.
        seconds = IMPATIENT.appear + 60
        eventually(lambda: board.find_other_than(server), "another server is registered", seconds)


def test_a_server_that_does_not_start_is_tried_for_as_long_as_it_takes(
    keep_board: KeepBoard, eventually: Eventually, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ready = tmp_path / "ready"
    script = (
        "import runpy, sys\n"
        f"if not __import__('os').path.exists({str(ready)!r}):\n"
        "    sys.exit('the card is not mounted')\n"
        "runpy.run_module('tunebook.workers.boards.board_server', run_name='__main__')\n"
    )
    server = ServerCommand([sys.executable, "-c", script], dict(os.environ))
    with running_tracker() as tracker:
        board = keep_board(tracker, server=server)
        eventually(lambda: caplog.text.count("the card is not mounted") > 4, "it was tried often")
        assert board.find() is None
        ready.touch()
        eventually(board.find, "the board is registered")


def test_a_place_to_listen_that_is_not_there_yet_costs_a_line_in_the_log(
    keep_board: KeepBoard, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    with running_tracker() as tracker:
        keep_board(tracker, host="wg-lab")
        eventually(lambda: "'wg-lab' is no address" in caplog.text, "the interface is missed")


def test_a_board_listens_where_it_is_told_to_and_is_handed_out_under_another_address(
    keep_board: KeepBoard, eventually: Eventually, held_port: int
) -> None:
    with running_tracker() as tracker, holding_port("127.0.0.2", held_port):
        board = keep_board(tracker, host="127.0.0.2", advertise="192.0.2.33", port=held_port)
        eventually(board.find, "the board is registered")
        assert board.registered.host == "192.0.2.33"
        with pytest.raises(OSError, match="refused"):
            _connect("127.0.0.1", board.registered.port)
        _connect("127.0.0.2", board.registered.port)


def _connect(host: str, port: int) -> None:
    socket.create_connection((host, port), timeout=60).close()


def test_nothing_is_left_of_an_agent_that_leaves(
    keep_board: KeepBoard, eventually: Eventually, is_gone: Callable[[int], bool]
) -> None:
    with running_tracker() as tracker:
        board = keep_board(tracker)
        eventually(board.find, "the board is registered")
        server = board.registered.pid
        board.end()
        assert is_gone(server)


class TestWithACoordinator:
    """A real `tunebook serve`."""

    pytestmark = pytest.mark.slow

    def test_a_board_is_reported_and_goes_into_quarantine_and_back_when_told(
        self,
        keep_board: KeepBoard,
        coordinator: Coordinator,
        eventually: Eventually,
        kernel: Callable[[str], Path],
        in_use: Callable[[BoardAddress], Any],
    ) -> None:
        with running_tracker() as tracker:
            board = keep_board(tracker, coordinator.reports())
            eventually(lambda: coordinator.knows(tracker), "the board was reported")
            report = coordinator.report()
            assert (report.restarts, report.fault) == (0, "")
            assert report.features == tuple(sorted(board.registered.features))
            assert {"tvm", "ffi", "python", "kernel"} <= set(report.versions)
            defaults = coordinator.store.boards.defaults(CLASS)
            assert defaults is not None
            assert defaults.mtriple == report.mtriple

            session = in_use(BoardAddress(tracker.host, tracker.port, CLASS)).session(limit=0)
            coordinator.quarantine()
            eventually(coordinator.knows_quarantine, "it was told")
            assert board.find() is not None, "the session in hand goes on"
            assert board.find(IN_QUARANTINE) is None
            library = kernel("number++")
            session.upload(str(library))
            assert session.load_module(library.name)["main"](41) == 42
            session.get_function("CloseRPCConnection")()
            eventually(lambda: board.find(IN_QUARANTINE), "it stands in quarantine")
            assert board.find() is None
            coordinator.lift()
            eventually(board.find, "it is back in its class")
            assert coordinator.report().restarts == 0, "that was no fault"

    def test_a_board_that_is_in_quarantine_begins_there(
        self, keep_board: KeepBoard, coordinator: Coordinator, eventually: Eventually
    ) -> None:
        coordinator.quarantine()
        with running_tracker() as tracker:
            board = keep_board(tracker, coordinator.reports())
            eventually(lambda: board.find(IN_QUARANTINE), "it stands in quarantine")
            assert board.find() is None
        coordinator.lift()

    def test_a_coordinator_that_goes_and_comes_back_costs_two_lines_in_the_log(
        self,
        keep_board: KeepBoard,
        coordinator: Coordinator,
        eventually: Eventually,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level(logging.INFO)
        with running_tracker() as tracker:
            board = keep_board(tracker, coordinator.reports())
            eventually(lambda: coordinator.knows(tracker), "the board was reported")
            server = board.registered.pid
            assert server is not None
            coordinator.kill()
            os.kill(server, signal.SIGKILL)
            eventually(lambda: caplog.text.count("not reported") == 1, "it is missed in the log")
            eventually(board.find, "the board is back without it")
            coordinator.start()
            eventually(lambda: coordinator.report().restarts == 1, "the restart was reported")
            assert "ended by SIGKILL" in coordinator.report().fault
            eventually(lambda: "takes reports again" in caplog.text, "the log says so")
        assert caplog.text.count("not reported") == 1
        assert caplog.text.count("takes reports again") == 1

    def test_a_refused_token_costs_a_line_in_the_log_and_not_the_board(
        self,
        keep_board: KeepBoard,
        coordinator: Coordinator,
        eventually: Eventually,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        with running_tracker() as tracker:
            board = keep_board(tracker, coordinator.reports(token="tbk_" + "0" * 43))
            eventually(lambda: "not reported" in caplog.text, "the refusal is in the log")
            assert "token" in caplog.text
            eventually(board.find, "the board is registered")
