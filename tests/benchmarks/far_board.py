"""A board at the other end of a long line: this board server, but each of its answers arrives 0.2
seconds later. Arguments are the server's own.

It runs the kernels on this machine, on the core that it was started on.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections import deque
from typing import Any

from one_core import keep_to_one_core
from tvm.rpc import _ffi_api as rpc_ffi

from tunebook.workers.boards import board_server

ANSWER_SECONDS = 0.2

_serve_loop = rpc_ffi.ServerLoop


def carry(client: socket.socket, board: socket.socket) -> None:
    """Between both until one ends: what the client says at once, what the board says later."""
    late: deque[tuple[float, bytes]] = deque()
    while True:
        wait = max(0.0, late[0][0] - time.monotonic()) if late else None
        ready, _, _ = select.select([client, board], [], [], wait)
        if client in ready:
            content = client.recv(1 << 20)
            if not content:
                return
            board.sendall(content)
        if board in ready:
            content = board.recv(1 << 20)
            if not content:
                return
            late.append((time.monotonic() + ANSWER_SECONDS, content))
        while late and late[0][0] <= time.monotonic():
            client.sendall(late.popleft()[1])


def serve_far_away(connection: int) -> None:
    """Serves a session over a long line, which a process of its own is."""
    line, end = socket.socketpair()
    if os.fork() == 0:
        end.close()
        try:
            carry(socket.socket(fileno=connection), line)
        finally:
            os._exit(0)
    line.close()
    _serve_loop(end.fileno())


if __name__ == "__main__":
    keep_to_one_core()
    far: Any = serve_far_away
    rpc_ffi.ServerLoop = far
    board_server.main()
