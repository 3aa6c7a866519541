"""The greeting of a client, by which it shows that the tracker gave it this board."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass

from tvm.rpc import base as rpc

HANDSHAKE_SECONDS = 10.0


@dataclass(frozen=True)
class Client:
    """A client that showed the right key; `limit` is its session's time limit in seconds."""

    connection: socket.socket
    limit: float | None


def shake_hands(connection: socket.socket, match_key: str, board_class: str) -> Client | None:
    """The client, if it shows the key under which the board was offered; None if it does not.
    Raises OSError, ValueError and struct.error for what does not speak the protocol."""
    deadline = time.monotonic() + HANDSHAKE_SECONDS
    magic, length = struct.unpack("<ii", receive(connection, 8, deadline))
    if magic != rpc.RPC_MAGIC or not 0 < length < 4096:
        return None
    shown, *options = receive(connection, length, deadline).decode("utf-8").split()
    if shown != f"client:{match_key}":
        connection.sendall(struct.pack("<i", rpc.RPC_CODE_MISMATCH))
        return None
    name = f"server:{board_class}".encode()
    connection.sendall(struct.pack("<ii", rpc.RPC_CODE_SUCCESS, len(name)) + name)
    connection.settimeout(None)
    # Finds out within a minute that a client's machine is gone without a word.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    return Client(connection, _time_limit(options))


def receive(connection: socket.socket, count: int, deadline: float) -> bytes:
    """So many bytes, all of them by the deadline: whoever sends none, or one at a time, must not
    hold the board. Raises OSError."""
    received = b""
    while len(received) < count:
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        more = connection.recv(count - len(received))
        if not more:
            raise OSError("it hung up")
        received += more
    return received


def _time_limit(options: Iterable[str]) -> float | None:
    for option in options:
        name, _, value = option.partition("=")
        if name == "-timeout":
            return float(value)
    return None
