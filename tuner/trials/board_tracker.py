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
    """A board that the tracker handed out: where it listens, and the key that opens it.

    `identity` tells its process from one that is started in its place, None where it is unknown.
    """

    host: str
    port: int
    match_key: str
    identity: str | None


@dataclass(frozen=True)
class _Registered:
    """A board at the tracker: its class, where it listens, and what its agent calls itself."""

    board_class: str
    place: tuple[str, int]
    server_id: str | None

    @classmethod
    def from_answer(cls, told: dict[str, Any]) -> _Registered:
        host, port = told["addr"]
        board_class = told["key"].removeprefix("server:")
        return cls(board_class, (host, port), told.get("tunebook", {}).get("id"))


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

    An agent that was started again has another identity under the same address; TVM's own server
    tells none, and has its address for one.
    """
    try:
        return _identity(_registered(address), address.board_class, host, port)
    except BoardError:
        return None


def _identity(boards: Sequence[_Registered], board_class: str, host: str, port: int) -> str | None:
    for board in boards:
        if board.board_class == board_class and board.place == (host, port):
            return board.server_id or f"{host}:{port}"
    return None


def _registered(address: BoardAddress) -> list[_Registered]:
    with _Tracker(address, _LISTEN_SECONDS) as tracker:
        try:
            return tracker.boards()
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
        "start its agent, or name another class with --boards"
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
        found = _identity(self.boards(), board_class, host, port)
        return BoardOffer(host, port, match_key, found)

    def boards(self) -> list[_Registered]:
        boards = self._ask([rpc.TrackerCode.SUMMARY])["server_info"]
        return [_Registered.from_answer(board) for board in boards]

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
