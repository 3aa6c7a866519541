"""What processes of one database tell each other at once, over Redis where there is one."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping

from tunebook.cache.live.doorbell import Bell
from tunebook.cache.live.live_counts import FROM_PROCESS, FROM_REDIS, HEARD, TELL, LiveCounts
from tunebook.cache.live.news import Message, News
from tunebook.cache.live.news_sender import NewsSender
from tunebook.cache.live.redis_link import RedisLink
from tunebook.cache.live.shared_answers import SharedAnswers
from tunebook.cache.live.shared_rates import SharedRates

# Told the newest events by job, and whether they are news of this process or came over Redis.
EventListener = Callable[[Mapping[int, int], str], None]


class Live:
    """The doorbell, news of events, and rates: within this process, and with others over Redis.

    The contract: the database is the truth, and nothing here is needed for anything. News say that
    there is something, and may be lost; no method raises for a fault of Redis, and none waits for
    it for longer than half a second. While Redis is away, and where none is given, everything goes
    on within the process, and `is_up` is false: whoever waits looks into the database more often.
    """

    def __init__(self, url: str | None, place: str = "", secret: bytes = b"") -> None:
        """See `open`, but for the beginning: `start` does that."""
        self.counts = LiveCounts()
        self._origin = uuid.uuid4().hex[:16]
        self._lock = threading.Lock()
        self._event_listeners: list[EventListener] = []
        self._change_listeners: list[Callable[[], None]] = []
        self._sender: NewsSender | None = None
        self._link: RedisLink | None = None
        self._wakeups = f"tunebook:{place}:wakeups"
        if url:
            channel = f"tunebook:{place}:news"
            self._link = RedisLink(url, channel, self.counts, self._hear, self._changed)
            self._sender = NewsSender(self._link, channel, self._origin, self._wakeups, self.counts)
        self.bell = Bell(lambda: self.is_up, self._woke)
        self.rates = SharedRates(self._link, f"tunebook:{place}:rate:")
        self.answers = SharedAnswers(
            self._link if secret else None, f"tunebook:{place}:answers", secret
        )

    @classmethod
    def open(cls, url: str | None, place: str = "", secret: bytes = b"") -> Live:
        """Begins to reach for the Redis at a URL (None: without one), and does not wait for it.
        `place` tells databases apart that share a Redis; `secret` is what answers are sealed with
        that replicas share (empty: they share none). Raises UsageError for a URL that is none, and
        where the driver is not installed."""
        live = cls(url, place, secret)
        live.start()
        return live

    def start(self) -> None:
        """Begins to reach for Redis, where one is given; once."""
        if self._link is not None and self._sender is not None:
            self._link.start()
            self._sender.start()

    def close(self) -> None:
        """Tells what is left to tell, and ends, within seconds also where Redis hangs."""
        if self._sender is not None:
            self._sender.close()
        if self._link is not None:
            self._link.close()

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    @property
    def has_redis(self) -> bool:
        """Whether there is a Redis to be used, away or not."""
        return self._link is not None

    @property
    def is_up(self) -> bool:
        """Whether news of other processes are heard here."""
        return self._link is not None and self._link.is_up

    @property
    def fault(self) -> str:
        """Why Redis is away, in a line; empty where it is there, or none is used."""
        return "" if self._link is None else self._link.fault

    def tell(self, news: News) -> None:
        """Tells threads here and other processes of what was committed. Waits for nothing."""
        if news.events:
            self._hand_on(news.events, FROM_PROCESS)
        if news.work:
            self.bell.ring()
        if self._sender is not None:
            self._sender.send(news)

    def on_events(self, listener: EventListener) -> None:
        """Calls a listener with news of events, from any thread."""
        with self._lock:
            self._event_listeners = [*self._event_listeners, listener]

    def on_change(self, listener: Callable[[], None]) -> None:
        """Calls a listener when Redis came or went, from a thread of its own."""
        with self._lock:
            self._change_listeners = [*self._change_listeners, listener]

    def wakeups(self) -> int | None:
        """How often the doorbell woke a lane of any worker, as Redis counted; None where it does
        not say."""
        if self._link is None:
            return None
        found = self._link.call(TELL, lambda redis: redis.get(self._wakeups) or b"0")
        # Others may write to it too.
        return int(found) if found is not None and found.isdigit() else None

    def _woke(self) -> None:
        if self._sender is not None and self.is_up:
            self._sender.count_wakeup()

    def _hear(self, text: bytes) -> None:
        message = Message.parse(text)
        if message is None or message.origin == self._origin:
            return
        if message.news.work:
            self.counts.rang(HEARD)
            self.bell.ring()
        if message.news.events:
            self._hand_on(message.news.events, FROM_REDIS)

    def _hand_on(self, events: Mapping[int, int], source: str) -> None:
        for listener in self._event_listeners:
            listener(events, source)

    def _changed(self) -> None:
        # What rang while it was away was not heard; and who waits is to wait less long now.
        self.bell.ring()
        for listener in self._change_listeners:
            listener()
