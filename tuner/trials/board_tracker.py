"""Asking an RPC tracker for a board, with an end to the waiting.

TVM's own client waits for ever when no board is registered or free.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.rpc import base as rpc

from tunebook.cache.boards.registrations import RegisteredBoard, read_registrations
from tunebook.cache.errors import BoardError
from tunebook.tuner.trials.trials import BoardAddress
from tunebook.tuner.tvm_compat import acknowledge_at_once

_ANSWER_SECONDS = 10.0
# A tracker that is being restarted is given this long to listen again.
_LISTEN_SECONDS = 3.0
_RETRY_SECONDS = 0.2
# What a connection that ends raises, and an answer that makes no sense.
_BROKEN = (OSError, ValueError, TypeError, KeyError, AttributeError, struct.error)


@dataclass(frozen=True)
class BoardOffer:
    """A board that the tracker handed out: where it listens, the key that opens it, and its server
    as it is registered, None where it is not known."""

    host: str
    port: int
    match_key: str
    server: RegisteredBoard | None


@dataclass(frozen=True)
class BoardsThere:
    """The boards of a class at a tracker, and how many of them nobody has."""

    servers: tuple[RegisteredBoard, ...]
    free: int


def boards_there(address: BoardAddress) -> BoardsThere:
    """The boards of a class at this moment. Raises BoardError when the tracker does not answer."""
    with _Tracker(address, _LISTEN_SECONDS) as tracker:
        try:
            return tracker.boards_there(address.board_class)
        except _BROKEN as error:
            raise BoardError(_broken(address, error)) from error


def request_board(address: BoardAddress, timeout: float) -> BoardOffer:
    """A free board of the class. Raises BoardError after `timeout` seconds without one."""
    with _Tracker(address, min(timeout, _LISTEN_SECONDS)) as tracker:
        try:
            return tracker.request(address.board_class, timeout)
        except TimeoutError:
            pass
        except _BROKEN as error:
            raise BoardError(_broken(address, error)) from error
    raise BoardError(_nothing_free(address, timeout))


def identity(address: BoardAddress, host: str, port: int) -> str | None:
    """What identifies the board process that is registered under an address, None if none is.

    A board server that was started again has another identity under the same address; TVM's own
    tells none, and has its address for one.
    """
    try:
        server = _server_at(_registered(address), address.board_class, host, port)
    except BoardError:
        return None
    return server.identity if server is not None else None


def _server_at(
    servers: Sequence[RegisteredBoard], board_class: str, host: str, port: int
) -> RegisteredBoard | None:
    for server in servers:
        if (server.board_class, server.host, server.port) == (board_class, host, port):
            return server
    return None


def _registered(address: BoardAddress) -> tuple[RegisteredBoard, ...]:
    with _Tracker(address, _LISTEN_SECONDS) as tracker:
        try:
            return tracker.servers()
        except _BROKEN as error:
            raise BoardError(_broken(address, error)) from error


def _nothing_free(address: BoardAddress, timeout: float) -> str:
    boards = [board.board_class for board in _registered(address)]
    ours = boards.count(address.board_class)
    where = f"class '{address.board_class}' at the tracker {_place(address)}"
    if ours:
        return (
            f"no board of {where} became free within {timeout:g} s: {ours} registered, all busy; "
            "wait for the others, or wait longer with --board-timeout"
        )
    others = ", ".join(sorted(set(boards))) or "none at all"
    return (
        f"no board of {where} is registered after {timeout:g} s (registered there: {others}); "
        "start its board server, or name another class with --boards"
    )


def _broken(address: BoardAddress, error: Exception) -> str:
    return f"the tracker at {_place(address)} ended the connection ({error}); check its log"


def _place(address: BoardAddress) -> str:
    return f"{address.tracker_host}:{address.tracker_port}"


class _Tracker:
    """A connection to a tracker; making one raises BoardError, every method what is `_BROKEN`."""

    def __init__(self, address: BoardAddress, patience: float) -> None:
        self._socket = _connect(address, patience)

    def __enter__(self) -> _Tracker:
        return self

    def __exit__(self, *raised: object) -> None:
        self._socket.close()

    def request(self, board_class: str, timeout: float) -> BoardOffer:
        host, port, match_key = self._ask([rpc.TrackerCode.REQUEST, board_class, "", 1], timeout)
        found = _server_at(self.servers(), board_class, host, port)
        return BoardOffer(host, port, match_key, found)

    def servers(self) -> tuple[RegisteredBoard, ...]:
        return self._summary()[0]

    def boards_there(self, board_class: str) -> BoardsThere:
        servers, free = self._summary()
        ours = tuple(one for one in servers if one.board_class == board_class)
        return BoardsThere(ours, free.get(board_class, 0))

    def _summary(self) -> tuple[tuple[RegisteredBoard, ...], dict[str, int]]:
        """Who is registered, and how many of each class are free."""
        told = self._ask([rpc.TrackerCode.SUMMARY])
        servers = read_registrations(told["server_info"])
        return servers, {name: one["free"] for name, one in told["queue_info"].items()}

    def _ask(self, message: list[Any], timeout: float = _ANSWER_SECONDS) -> Any:
        rpc.sendjson(self._socket, message)
        self._socket.settimeout(timeout)
        acknowledge_at_once(self._socket)
        code, value = rpc.recvjson(self._socket)
        if code != rpc.TrackerCode.SUCCESS:
            raise OSError(f"the tracker answered with code {code}")
        return value


def _connect(address: BoardAddress, patience: float) -> socket.socket:
    deadline = time.monotonic() + patience
    while True:
        try:
            return _greet((address.tracker_host, address.tracker_port))
        except ConnectionRefusedError as error:
            reason = error
        except (OSError, struct.error) as error:
            raise BoardError(_unreachable(address, error)) from error
        if time.monotonic() >= deadline:
            raise BoardError(_unreachable(address, reason)) from reason
        time.sleep(_RETRY_SECONDS)


def _greet(place: tuple[str, int]) -> socket.socket:
    connection = socket.create_connection(place, timeout=_ANSWER_SECONDS)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(struct.pack("<i", rpc.RPC_TRACKER_MAGIC))
        if struct.unpack("<i", rpc.recvall(connection, 4))[0] != rpc.RPC_TRACKER_MAGIC:
            raise OSError("what answers there is no TVM RPC tracker")
    except BaseException:
        connection.close()
        raise
    return connection


def _unreachable(address: BoardAddress, error: Exception) -> str:
    return (
        f"no tracker can be reached at {_place(address)} ({error}); check that it runs and that "
        "--tracker names it"
    )
