"""A tracker is ours while we need it, and says in words what is wrong with another."""

from __future__ import annotations

import socket

import pytest

from tunebook.cache.errors import BoardError
from tunebook.workers.boards.tracker import TrackerAddress, query_tracker, running_tracker


def test_a_new_tracker_has_no_boards() -> None:
    with running_tracker() as address:
        assert query_tracker(address).boards == ()


def test_two_trackers_run_side_by_side() -> None:
    with running_tracker() as one, running_tracker() as other:
        assert one.port != other.port
        assert query_tracker(one) == query_tracker(other)


def test_a_stopped_tracker_frees_its_port() -> None:
    with running_tracker() as address:
        pass
    with running_tracker(port=address.port) as again:
        assert again == address


def test_a_taken_port_is_an_error() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(BoardError, match="another address or port"),
        running_tracker(port=taken.getsockname()[1]),
    ):
        raise AssertionError("started on a taken port")


def test_a_program_that_stays_silent_is_no_tracker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = TrackerAddress(*silent.getsockname())
        with pytest.raises(BoardError, match="does not answer"):
            query_tracker(address, timeout=0.2)


def test_a_program_of_another_protocol_is_no_tracker(board) -> None:
    """A board's own port, given for the tracker's: an easy mistake."""
    at = board.registered()
    with pytest.raises(BoardError, match="tracker"):
        query_tracker(TrackerAddress(at.host, at.port), timeout=5)


def test_a_waiting_client_is_seen(board) -> None:
    from tvm.rpc import base, connect_tracker

    waiting = connect_tracker(board.tracker.host, board.tracker.port)
    base.sendjson(waiting._sock, [base.TrackerCode.REQUEST, "nobody-has-this", "", 1])
    base.sendjson(waiting._sock, [base.TrackerCode.PING])
    base.recvjson(waiting._sock)
    assert query_tracker(board.tracker).queues["nobody-has-this"].waiting == 1
