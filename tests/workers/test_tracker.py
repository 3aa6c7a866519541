"""A tracker is ours while we need it, and says in words what is wrong with another."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tvm.rpc import base as rpc

from tunebook.cache.errors import BoardError
from tunebook.tuner.trials.board_tracker import boards_there
from tunebook.tuner.trials.trials import BoardAddress
from tunebook.workers.boards.tracker import TrackerAddress, query_tracker, running_tracker


def test_a_new_tracker_has_no_boards() -> None:
    with running_tracker() as address:
        assert query_tracker(address).boards == ()


def test_two_trackers_run_side_by_side() -> None:
    with running_tracker() as one, running_tracker() as other:
        assert one.port != other.port
        assert query_tracker(one) == query_tracker(other)


def test_a_stopped_tracker_frees_its_port(held_port: int) -> None:
    with running_tracker(port=held_port) as address:
        pass
    with running_tracker(port=held_port) as again:
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


@pytest.mark.parametrize(
    "told",
    [
        "a text",
        {"key": 5, "addr": ["192.0.2.1", 9090]},
        {"key": "server:pi", "addr": ["192.0.2.1", "any"]},
        {"key": "server:pi", "addr": ["192.0.2.1", 9090], "tunebook": None},
        {"key": "server:pi", "addr": ["192.0.2.1", 9090], "tunebook": {"beat": "often"}},
        {"key": "server:pi", "addr": ["192.0.2.1", 9090], "tunebook": {"features": [["crc"]]}},
    ],
)
def test_a_stranger_that_registers_hides_no_board(told: object) -> None:
    board = {"key": "server:pi", "addr": ["192.0.2.1", 9091], "tunebook": {"name": "pi-1"}}
    with _summary_of([told, board]) as address:
        assert [one.name for one in query_tracker(address).boards] == ["pi-1"]
        asked = BoardAddress(address.host, address.port, "pi")
        assert [one.name for one in boards_there(asked).servers] == ["pi-1"]


@contextmanager
def _summary_of(registrations: list[object]) -> Iterator[TrackerAddress]:
    """A fake: TVM's tracker ends the connections of some who ask while such are registered."""

    def serve() -> None:
        for _ in range(2):
            connection, _ = listener.accept()
            with connection:
                connection.sendall(rpc.recvall(connection, struct.calcsize("<i")))
                rpc.recvjson(connection)
                summary = {"server_info": registrations, "queue_info": {}}
                rpc.sendjson(connection, [rpc.TrackerCode.SUCCESS, summary])

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield TrackerAddress(*listener.getsockname())
        thread.join()


def test_a_waiting_client_is_seen(board) -> None:
    from tvm.rpc import base, connect_tracker

    waiting = connect_tracker(board.tracker.host, board.tracker.port)
    base.sendjson(waiting._sock, [base.TrackerCode.REQUEST, "nobody-has-this", "", 1])
    base.sendjson(waiting._sock, [base.TrackerCode.PING])
    base.recvjson(waiting._sock)
    assert query_tracker(board.tracker).queues["nobody-has-this"].waiting == 1
