"""Ports of this machine that nobody else takes while a test needs them."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager


def free_port() -> int:
    """A port of this machine that nobody has."""
    while True:
        # Below those that the system hands out: it stays free until its server is up, and while
        # that is started again.
        port = 20_000 + secrets.randbelow(9_000)
        with socket.socket() as taken:
            try:
                taken.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


@contextmanager
def holding_port(host: str = "127.0.0.1", port: int = 0) -> Iterator[int]:
    """A port at which nobody listens. Only who names it can have it, as a tracker of ours or a
    board server: without this socket another program might be given it meanwhile."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((host, port))
        yield int(held.getsockname()[1])
