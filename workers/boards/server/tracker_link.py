"""The connection to the tracker: registers the board, offers it, raises the beat."""

from __future__ import annotations

import os
import socket
import struct

from tvm.rpc import base as rpc

from tunebook.workers.boards.server.cpu_features import cpu_features
from tunebook.workers.boards.server.machine import boot_id, machine_triple
from tunebook.workers.boards.server.server_options import ServerOptions

# How often a server raises its beat.
BEAT_SECONDS = 0.5
TRACKER_SECONDS = 10.0


class TrackerLink:
    """The server's connection to its tracker: registers the board, offers it, raises the beat.

    Every method raises OSError when the tracker is gone; the link is then of no further use.
    """

    def __init__(self, options: ServerOptions, port: int) -> None:
        self._options = options
        self._port = port
        self._beat = 0
        self.offers = 0
        self._machine = {
            "features": cpu_features(),
            "mtriple": machine_triple(),
            "boot": boot_id(),
        }
        self._socket = socket.create_connection(options.tracker, timeout=TRACKER_SECONDS)
        try:
            self._socket.sendall(struct.pack("<i", rpc.RPC_TRACKER_MAGIC))
            if struct.unpack("<i", rpc.recvall(self._socket, 4))[0] != rpc.RPC_TRACKER_MAGIC:
                raise OSError("what answers at the tracker's address is no TVM RPC tracker")
            self.beat(serving=False)
        except BaseException:
            self.close()
            raise

    def beat(self, *, serving: bool) -> None:
        """Say that this server lives; a supervisor sees the number move at the tracker."""
        self._beat += 1
        server = {
            "id": self._options.server_id,
            "name": self._options.name,
            "pid": os.getpid(),
            "beat": self._beat,
            "serving": serving,
            "cores": len(os.sched_getaffinity(0)),
            **self._machine,
        }
        info = {
            "key": f"server:{self._options.board_class}",
            "addr": [self._options.advertise, self._port],
            "tunebook": server,
        }
        self._ask([rpc.TrackerCode.UPDATE_INFO, info])

    def offer(self, match_key: str) -> None:
        """Put the board into the queue of its class, for the client that shows `match_key`."""
        self.offers += 1
        address = self._options.advertise
        board_class = self._options.board_class
        self._ask([rpc.TrackerCode.PUT, board_class, (self._port, match_key), address])

    def is_waiting(self, match_key: str) -> bool:
        """Whether the board stands in the queue, taken by no client yet."""
        waiting = self._exchange([rpc.TrackerCode.GET_PENDING_MATCHKEYS])
        return isinstance(waiting, list) and match_key in waiting

    def close(self) -> None:
        self._socket.close()

    def _ask(self, message: list[object]) -> None:
        if self._exchange(message) != rpc.TrackerCode.SUCCESS:
            raise OSError(f"the tracker refused {message!r}")

    def _exchange(self, message: list[object]) -> object:
        rpc.sendjson(self._socket, message)
        try:
            return rpc.recvjson(self._socket)
        except (ValueError, struct.error) as error:
            raise OSError(f"the tracker's answer cannot be read: {error}") from error
