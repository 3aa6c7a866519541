"""Lives of processes that share a Redis; here two of them stand for two processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from redis_server import RedisServer

from tunebook.cache.live import redis_link
from tunebook.cache.live.live import Live
from tunebook.cache.live.redis_client import Timeouts

OpenLive = Callable[..., Live]


@pytest.fixture(autouse=True)
def patience(patient_redis: None) -> None:
    """All tests have it, but for those that make Redis hang."""


@pytest.fixture
def impatience(patience: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Redis is given up as soon as it is elsewhere, for tests that make it hang."""
    monkeypatch.setattr(redis_link, "Timeouts", Timeouts)


@pytest.fixture
def open_live(redis_server: RedisServer, eventually: Callable[..., None]) -> Iterator[OpenLive]:
    """Opens one on this test's Redis, and waits until it is there."""
    with ExitStack() as ends:

        def make(place: str = "here", secret: bytes = b"") -> Live:
            live = ends.enter_context(Live.open(redis_server.url, place, secret))
            eventually(lambda: live.is_up, "Redis is there")
            return live

        yield make
