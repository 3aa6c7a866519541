"""Whatever a tracker or a board does while a session is opened is a BoardError of one line.

The trackers and boards here are fakes where a real one cannot be made to fail at that very moment.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from tvm.rpc import base as rpc

from tunebook.cache.errors import BoardError
from tunebook.tuner.trials import board_session
from tunebook.tuner.trials.board_session import BoardSession
from tunebook.tuner.trials.board_tracker import identity, request_board
from tunebook.tuner.trials.trials import BoardAddress
from tunebook.workers.boards.tracker import running_tracker

Serve = Callable[[socket.socket], None]
BOARD_CLASS = "rpi4"


@contextmanager
def listening(serve: Serve) -> Iterator[int]:
    """A port that serves each connection until `serve` returns, then ends it."""

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                serve(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def tracker_that(answers: Callable[[list[object]], object]) -> Serve:
    """A tracker that greets, and gives its answer to each question; None ends the connection."""

    def serve(connection: socket.socket) -> None:
        connection.sendall(rpc.recvall(connection, 4))
        try:
            while (answer := answers(rpc.recvjson(connection))) is not None:
                rpc.sendjson(connection, answer)
        except OSError:
            return

    return serve


def hangs_up(question: list[object]) -> None:
    return None


def makes_no_sense(question: list[object]) -> object:
    return [rpc.TrackerCode.SUCCESS, "soon"]


def lists_no_boards(question: list[object]) -> object:
    if question[0] == rpc.TrackerCode.SUMMARY:
        return [rpc.TrackerCode.SUCCESS, {"server_info": 0, "queue_info": {}}]
    return [rpc.TrackerCode.SUCCESS, ["127.0.0.1", 9090, "key"]]


TRACKERS = [hangs_up, makes_no_sense, lists_no_boards]


@pytest.mark.parametrize("answers", TRACKERS)
def test_a_tracker_that_fails_when_it_is_asked_for_a_board_is_named(answers) -> None:
    with listening(tracker_that(answers)) as port, pytest.raises(BoardError) as raised:
        request_board(BoardAddress("127.0.0.1", port, BOARD_CLASS), 1.0)
    assert f"127.0.0.1:{port}" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_tracker_that_fails_when_none_is_free_is_named() -> None:
    silent = threading.Event()

    def serve(connection: socket.socket) -> None:
        connection.sendall(rpc.recvall(connection, 4))
        question = rpc.recvjson(connection)
        if question[0] == rpc.TrackerCode.REQUEST:
            silent.set()
            connection.recv(1)  # until the client has waited long enough

    with listening(serve) as port, pytest.raises(BoardError, match=f"127.0.0.1:{port}"):
        request_board(BoardAddress("127.0.0.1", port, BOARD_CLASS), 0.2)
    assert silent.is_set()


@pytest.mark.parametrize("answers", TRACKERS)
def test_a_board_at_a_tracker_that_fails_has_no_identity(answers) -> None:
    with listening(tracker_that(answers)) as port:
        assert identity(BoardAddress("127.0.0.1", port, BOARD_CLASS), "127.0.0.1", 9090) is None


def test_a_board_that_ends_a_session_as_it_begins_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # The tracker has a minute for its answer, and a board that has failed no second chance.
    now = [1000.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=time.sleep)
    monkeypatch.setattr(board_session, "time", clock)

    def greet_and_leave(connection: socket.socket) -> None:
        now[0] += 60
        _, length = struct.unpack("<ii", rpc.recvall(connection, 8))
        rpc.recvall(connection, length)
        name = f"server:{BOARD_CLASS}".encode()
        connection.sendall(struct.pack("<ii", rpc.RPC_CODE_SUCCESS, len(name)) + name)

    with running_tracker() as tracker, listening(greet_and_leave) as port:
        address = BoardAddress(tracker.host, tracker.port, BOARD_CLASS)
        with registered(address, port), pytest.raises(BoardError) as raised:
            BoardSession(address, num_cores=1, limit=60, board_timeout=60)
    assert f"127.0.0.1:{port}" in str(raised.value)
    assert "\n" not in str(raised.value)


@contextmanager
def registered(address: BoardAddress, port: int) -> Iterator[None]:
    """A board at the tracker while the block runs."""
    place = (address.tracker_host, address.tracker_port)
    with socket.create_connection(place) as connection:
        connection.sendall(struct.pack("<i", rpc.RPC_TRACKER_MAGIC))
        rpc.recvall(connection, 4)
        messages: tuple[list[object], ...] = (
            [
                rpc.TrackerCode.UPDATE_INFO,
                {"key": f"server:{BOARD_CLASS}", "addr": ["127.0.0.1", port]},
            ],
            [rpc.TrackerCode.PUT, BOARD_CLASS, (port, f"{BOARD_CLASS}:1"), "127.0.0.1"],
        )
        for message in messages:
            rpc.sendjson(connection, message)
            assert rpc.recvjson(connection) == rpc.TrackerCode.SUCCESS
        yield
