"""Session after session, and between them the board offered at its tracker."""

from __future__ import annotations

import logging
import secrets
import select
import socket
import struct
import time

from tunebook.workers.boards.server.handshake import Client, shake_hands
from tunebook.workers.boards.server.server_options import ServerOptions
from tunebook.workers.boards.server.sessions import serve_session
from tunebook.workers.boards.server.tracker_link import BEAT_SECONDS, TrackerLink

logger = logging.getLogger("tunebook.board")

# How long a client may take from asking the tracker for the board to connecting to it.
UNUSED_KEY_SECONDS = 6.0
# TVM's tracker keeps every offer of a connection until that ends.
MOST_OFFERS = 1000


class BoardServer:
    """Listens, and serves one session at a time in a process of its own, until it is to leave."""

    def __init__(self, options: ServerOptions) -> None:
        self._options = options
        self._leaving = False
        family = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM)[0][0]
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((options.host, options.port))
        self._listener.listen()
        self._link: TrackerLink | None = None

    def leave(self) -> None:
        """Be done after the session in hand; may be called by a signal."""
        self._leaving = True

    def serve(self) -> None:
        """Serve session after session. Returns once `leave` was called and no session is left."""
        while not self._leaving:
            try:
                if self._link is None or self._link.offers >= MOST_OFFERS:
                    self._register()
                client = self._next_client()
                if client is None:
                    break
            except OSError as error:
                logger.warning("tracker %s:%d: %s; trying again", *self._options.tracker, error)
                self._drop_link()
                time.sleep(BEAT_SECONDS)
                continue
            with client.connection:
                serve_session(
                    client,
                    self._options.work_folder,
                    beat=self._beat_serving,
                    leave_server=self._close,
                )
        self._close()

    def _register(self) -> None:
        """Over a connection of its own, before the last one ends: the board is always there."""
        link = TrackerLink(self._options, self._listener.getsockname()[1])
        self._drop_link()
        self._link = link

    def _next_client(self) -> Client | None:
        """The next client that has been given this board; None where it is to leave before."""
        link = self._link
        assert link is not None, "registered by now"
        match_key = self._new_offer(link)
        taken_at: float | None = None
        while True:
            ready, _, _ = select.select([self._listener], [], [], BEAT_SECONDS)
            if ready:
                client = self._greet(match_key)
                if client is not None:
                    return client
            link.beat(serving=False)
            now = time.monotonic()
            if link.is_waiting(match_key):
                if self._leaving:
                    return None
                taken_at = None
            elif taken_at is None:
                taken_at = now
            elif now - taken_at > UNUSED_KEY_SECONDS:
                if self._leaving:
                    return None
                logger.info("a client took this board and never came; offering it again")
                match_key, taken_at = self._new_offer(link), None

    def _new_offer(self, link: TrackerLink) -> str:
        # Not rpc.random_key: it draws from 2**32 times a guessable generator's state.
        match_key = f"{self._options.board_class}:{secrets.token_hex(16)}"
        link.offer(match_key)
        return match_key

    def _greet(self, match_key: str) -> Client | None:
        connection, peer = self._listener.accept()
        try:
            client = shake_hands(connection, match_key, self._options.board_class)
        except (OSError, ValueError, struct.error) as error:
            logger.warning("%s: handshake failed: %s", peer, error)
            client = None
        if client is None:
            connection.close()
        return client

    def _beat_serving(self) -> None:
        if self._link is None:
            return
        try:
            self._link.beat(serving=True)
        except OSError as error:
            # The session goes on without a tracker; the board registers anew when it ends.
            logger.warning("tracker: %s", error)
            self._drop_link()

    def _drop_link(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def _close(self) -> None:
        self._drop_link()
        self._listener.close()
