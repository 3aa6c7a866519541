"""Tells other processes of news, without anybody who has some waiting for it."""

from __future__ import annotations

import threading

from tunebook.cache.live.live_counts import LOST, SENT, TELL, LiveCounts
from tunebook.cache.live.news import Message, News
from tunebook.cache.live.redis_client import RedisClient
from tunebook.cache.live.redis_link import RedisLink

_LEAVING_SECONDS = 1.0


class NewsSender:
    """Sends news from a thread of its own; what comes meanwhile goes in one message.

    While Redis is away news are dropped: whoever would hear of them looks into the database.
    `wakeups` is the key under which Redis counts the lanes that the doorbell woke.
    """

    def __init__(
        self, link: RedisLink, channel: str, origin: str, wakeups: str, counts: LiveCounts
    ) -> None:
        self._link = link
        self._channel = channel
        self._origin = origin
        self._wakeups = wakeups
        self._counts = counts
        self._waiting = threading.Condition()
        self._news = News()
        self._woken = 0
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="redis-tell", daemon=True)

    def start(self) -> None:
        """Begins to send."""
        self._thread.start()

    def send(self, news: News) -> None:
        """Sends news soon."""
        with self._waiting:
            self._news = self._news.and_also(news)
            self._waiting.notify()

    def count_wakeup(self) -> None:
        """Counts for all to see that the doorbell woke a lane."""
        with self._waiting:
            self._woken += 1
            self._waiting.notify()

    def close(self) -> None:
        """Sends what is left, and ends; within a second or two where Redis hangs."""
        with self._waiting:
            self._closing = True
            self._waiting.notify()
        if self._thread.is_alive():
            self._thread.join(_LEAVING_SECONDS)

    def _run(self) -> None:
        while True:
            with self._waiting:
                self._waiting.wait_for(lambda: self._news or self._woken or self._closing)
                news, self._news = self._news, News()
                woken, self._woken = self._woken, 0
            if news or woken:
                self._tell(news, woken)
            elif self._closing:
                return

    def _tell(self, news: News, woken: int) -> None:
        text = Message(self._origin, news).text()

        def ask(client: RedisClient) -> bool:
            with client.pipeline(transaction=False) as pipeline:
                if news:
                    pipeline.publish(self._channel, text)
                if woken:
                    pipeline.incrby(self._wakeups, woken)
                pipeline.execute()
            return True

        told = self._link.call(TELL, ask)
        if news.work:
            self._counts.rang(SENT if told else LOST)
