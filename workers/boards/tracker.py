"""The RPC tracker, where boards register and clients ask for them: start one, look into one."""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import socket
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tvm.rpc import base as rpc

from tunebook.cache.boards.registrations import RegisteredBoard, read_registrations
from tunebook.cache.errors import BoardError, UsageError
from tunebook.workers.boards.child_processes import log_tail, start_child, stop_child
from tunebook.workers.boards.server.parent_process import follow_parent

ANSWER_SECONDS = 10.0
START_SECONDS = 60.0


@dataclass(frozen=True)
class TrackerAddress:
    """Where a tracker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_tracker(text: str) -> TrackerAddress:
    """Reads HOST:PORT. Raises UsageError."""
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port or parts.netloc != text or "@" in text:
        raise UsageError(f"--tracker takes HOST:PORT, for example 192.0.2.1:9190, not '{text}'")
    return TrackerAddress(host, port)


@dataclass(frozen=True)
class BoardQueue:
    """One board class at the tracker: boards that are free, and clients that wait for one."""

    free: int
    waiting: int


@dataclass(frozen=True)
class TrackerSummary:
    """What a tracker knows at one moment."""

    boards: tuple[RegisteredBoard, ...]
    queues: dict[str, BoardQueue]

    def boards_of(self, board_class: str) -> tuple[RegisteredBoard, ...]:
        return tuple(board for board in self.boards if board.board_class == board_class)


def query_tracker(address: TrackerAddress, timeout: float = ANSWER_SECONDS) -> TrackerSummary:
    """Ask a tracker which boards are registered; BoardError when it does not answer in time."""
    try:
        with socket.create_connection((address.host, address.port), timeout=timeout) as connection:
            connection.settimeout(timeout)
            connection.sendall(struct.pack("<i", rpc.RPC_TRACKER_MAGIC))
            if struct.unpack("<i", rpc.recvall(connection, 4))[0] != rpc.RPC_TRACKER_MAGIC:
                raise BoardError(
                    f"what answers at {address} is no TVM RPC tracker; check --tracker HOST:PORT"
                )
            rpc.sendjson(connection, [rpc.TrackerCode.SUMMARY])
            code, answer = rpc.recvjson(connection)
        if code != rpc.TrackerCode.SUCCESS:
            raise BoardError(f"the tracker at {address} refused to say which boards it has")
        return _summary(answer)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, struct.error) as error:
        raise BoardError(
            f"the tracker at {address} does not answer ({error}); check that it runs and that "
            "--tracker names it"
        ) from error


def _summary(answer: dict[str, Any]) -> TrackerSummary:
    queues = {
        board_class: BoardQueue(queue["free"], queue["pending"])
        for board_class, queue in answer["queue_info"].items()
    }
    return TrackerSummary(read_registrations(answer["server_info"]), queues)


@contextmanager
def running_tracker(host: str = "127.0.0.1", port: int = 0) -> Iterator[TrackerAddress]:
    """A tracker in a child process, answering, and stopped on exit; `port` 0 takes a free one.

    The socket is bound before the child starts, so no other program can take the port in between.
    Raises BoardError when the port is taken or the tracker does not start.
    """
    with tempfile.TemporaryDirectory(prefix="tunebook-tracker-") as folder:
        log = Path(folder, "log")
        with _listen(host, port) as listener:
            address = TrackerAddress(host, listener.getsockname()[1])
            process = start_child(
                [
                    *(sys.executable, "-m", "tunebook.workers.boards.tracker"),
                    f"--listener={listener.fileno()}",
                    f"--parent-pid={os.getpid()}",
                ],
                folder=Path(folder),
                log=log,
                environment=os.environ | {"TVM_USE_RUNTIME_LIB": "1"},
                pass_fds=[listener.fileno()],
            )
        try:
            _wait_for_answer(address, log)
            yield address
        finally:
            stop_child(process)


def serve_as_tracker(host: str, port: int, ready: Callable[[TrackerAddress], None]) -> None:
    """Be a tracker at this address until the process is told to stop, which this raises through;
    calls `ready` once it listens. Raises BoardError where it cannot listen."""
    with _listen(host, port) as listener:
        ready(TrackerAddress(host, listener.getsockname()[1]))
        _serve(listener)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=64)
    except OSError as error:
        raise BoardError(
            f"no tracker can listen on {TrackerAddress(host, port)} ({error}); name another "
            "address or port"
        ) from error


def _wait_for_answer(address: TrackerAddress, log: Path) -> None:
    # The connection waits in the listener's backlog until the child serves it.
    try:
        query_tracker(address, START_SECONDS)
    except BoardError as error:
        raise BoardError(f"the tracker did not start; its log ends: {log_tail(log)}") from error


def main() -> None:
    """The child's side: serve the listener that the parent has bound."""
    parser = argparse.ArgumentParser(prog="tracker")
    parser.add_argument("--listener", type=int, required=True)
    parser.add_argument("--parent-pid", type=int, required=True)
    given = parser.parse_args()
    follow_parent(given.parent_pid)
    _serve(socket.socket(fileno=given.listener))


def _serve(listener: socket.socket) -> None:
    # Needs tornado, which who only looks into a tracker does without.
    from tvm.rpc.tracker import TrackerServerHandler

    asyncio.set_event_loop(asyncio.new_event_loop())
    # The key would let a client stop the tracker; nobody is told it.
    TrackerServerHandler(listener, secrets.token_hex()).run()


if __name__ == "__main__":
    main()
