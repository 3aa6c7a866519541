"""A connection to Redis that nothing depends on.

One thread keeps it: it connects, subscribes to one channel, hears what is said there, and notices
when Redis is away or hangs. Whoever wants something of Redis asks only while that thread says that
it is there, waits briefly at most, and otherwise goes on without. It is tried again for ever.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from tunebook.cache.live.live_counts import CONNECT, LiveCounts
from tunebook.cache.live.redis_client import (
    RedisClient,
    Timeouts,
    explain,
    open_client,
    shown_url,
)

_log = logging.getLogger(__name__)
T = TypeVar("T")

# How long one look for messages takes at most; the end of the process waits for it.
_SLICE_SECONDS = 0.25
# After so long without a message Redis is asked whether it is there.
_QUIET_SECONDS = 1.0
# Refusals come by the thousand, one for each request.
_REFUSAL_SECONDS = 60.0


@dataclass(frozen=True)
class Pauses:
    """Seconds between two tries to reach Redis: the first, the longest, and how long a connection
    must have lived for the first to be enough again."""

    first: float = 0.1
    longest: float = 3.0
    lived: float = 5.0


class RedisLink:
    """Redis as long as it is there; `call` gives None while it is not.

    `hear` is told each message of the channel, `changed` that Redis came or went, both on a thread
    of the link. Raises UsageError for a URL that is none.
    """

    def __init__(
        self,
        url: str,
        channel: str,
        counts: LiveCounts,
        hear: Callable[[bytes], None],
        changed: Callable[[], None],
        *,
        timeouts: Timeouts | None = None,
        pauses: Pauses | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = shown_url(url)
        self._timeouts = timeouts or Timeouts()
        self._client = open_client(url, self._timeouts)
        self._channel = channel
        self._counts = counts
        self._hear = hear
        self._changed = changed
        self._pauses = pauses or Pauses()
        self._monotonic = monotonic
        self._closing = threading.Event()
        self._doubt = threading.Event()
        self._is_up = False
        self._fault = "it was not reached yet"
        self._told_faults: set[str] = set()
        self._refused_at = -_REFUSAL_SECONDS
        self._thread = threading.Thread(target=self._keep, name="redis-link", daemon=True)

    @property
    def is_up(self) -> bool:
        """Whether Redis answers, as far as is known."""
        return self._is_up and not self._doubt.is_set()

    @property
    def fault(self) -> str:
        """Why it is away, in a line; empty while it is there."""
        return "" if self.is_up else self._fault

    def start(self) -> None:
        """Begins to reach for Redis, without waiting for it."""
        self._thread.start()

    def close(self) -> None:
        """Ends the connection, within seconds even where Redis hangs."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(2 * (self._timeouts.connect + self._timeouts.answer) + 1)
        self._is_up = False
        with suppress(Exception):
            self._client.connection_pool.disconnect()

    def call(self, use: str, ask: Callable[[RedisClient], T]) -> T | None:
        """What Redis answers; None where it is away, does not answer in time, or refuses. Safe from
        any thread."""
        if not self.is_up:
            return None
        import redis

        try:
            return ask(self._client)
        except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
            self._counts.failed(use)
            self._fault = explain(error, self.name)
            # The thread finds out whether it is away; until then nobody else waits for it.
            self._doubt.set()
        except redis.RedisError as error:
            self._counts.failed(use)
            self._tell_refusal(use, error)
        return None

    # --- the thread ----------------------------------------------------------------------------
    def _keep(self) -> None:
        pause = self._pauses.first
        while not self._closing.is_set():
            began = self._monotonic()
            try:
                self._listen()
            except Exception as error:  # whatever the driver raises: it is tried again for ever
                if self._closing.is_set():
                    return
                self._counts.failed(CONNECT)
                self._went(error)
            if self._monotonic() - began >= self._pauses.lived:
                pause = self._pauses.first
            # Not all processes of a fleet at once.
            self._closing.wait(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, self._pauses.longest)

    def _listen(self) -> None:
        """Until the link is closed; raises when Redis goes."""
        self._doubt.clear()
        # Connections that were open may be to a server that is gone.
        self._client.connection_pool.disconnect(inuse_connections=False)
        with self._client.pubsub() as heard:
            heard.subscribe(self._channel)
            self._await_first(heard)
            # What may subscribe may still be refused everything else.
            self._client.ping()
            self._came()
            self._follow(heard)

    def _await_first(self, heard: Any) -> None:
        until = self._monotonic() + self._timeouts.answer
        while heard.get_message(timeout=_SLICE_SECONDS) is None:
            self._raise_when_late(until)

    def _follow(self, heard: Any) -> None:
        last, late_at = self._monotonic(), None
        while not self._closing.is_set():
            message = heard.get_message(timeout=_SLICE_SECONDS)
            if self._doubt.is_set():
                raise ConnectionError(self._fault)
            if message is not None:
                last, late_at = self._monotonic(), None
                if message["type"] == "message":
                    self._hear(message["data"])
            elif late_at is not None:
                self._raise_when_late(late_at)
            elif self._monotonic() - last >= _QUIET_SECONDS:
                heard.ping()
                late_at = self._monotonic() + self._timeouts.answer

    def _raise_when_late(self, until: float) -> None:
        if self._monotonic() > until:
            raise TimeoutError("timed out")

    def _came(self) -> None:
        self._is_up = True
        self._told_faults.clear()
        _log.info("Redis is there", extra={"redis": self.name})
        self._changed()

    def _went(self, error: Exception) -> None:
        if not self._doubt.is_set():
            self._fault = explain(error, self.name)
        was_up, self._is_up = self._is_up, False
        if was_up:
            # Where it is there again at once, nobody needs to do anything.
            _log.info("a connection was lost: %s", self._fault)
            self._changed()
        elif self._fault not in self._told_faults:
            self._told_faults.add(self._fault)
            _log.warning("%s; everything goes on without it, and it is tried again", self._fault)

    def _tell_refusal(self, use: str, error: Exception) -> None:
        now = self._monotonic()
        if now - self._refused_at >= _REFUSAL_SECONDS:
            self._refused_at = now
            _log.warning(
                "%s; this goes on without it", explain(error, self.name), extra={"use": use}
            )
