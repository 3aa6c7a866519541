"""The doorbell wakes whoever waits, here and in other processes, and nobody misses a ring."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from redis_server import RedisServer

from tunebook.cache.live.doorbell import ALONE_SECONDS, SHARED_SECONDS, Bell
from tunebook.cache.live.live import Live
from tunebook.cache.live.live_counts import HEARD, LOST, SENT
from tunebook.cache.live.news import News

Eventually = Callable[..., None]
OpenLive = Callable[..., Live]
# Longer than a test may take: only a ring ends such a wait.
FOR_EVER = 3600.0


@pytest.fixture
def never() -> threading.Event:
    return threading.Event()


def test_nobody_rang(never: threading.Event) -> None:
    assert not Bell().wait(0.01, never)


def test_a_ring_before_waiting_is_not_missed_and_counts_once(never: threading.Event) -> None:
    bell = Bell()
    bell.ring()
    assert bell.wait(FOR_EVER, never)
    assert not bell.wait(0.01, never)


def test_a_ring_wakes_all_who_wait(never: threading.Event) -> None:
    bell, waiting = Bell(), threading.Barrier(4)

    def wait() -> bool:
        waiting.wait()
        return bell.wait(FOR_EVER, never)

    with ThreadPoolExecutor(3) as threads:
        woken = [threads.submit(wait) for _ in range(3)]
        waiting.wait()
        bell.ring()
        assert all(one.result() for one in woken)


def test_the_end_of_a_worker_ends_its_wait() -> None:
    stop = threading.Event()
    threading.Timer(0.05, stop.set).start()
    assert not Bell().wait(FOR_EVER, stop)


def test_a_ring_wakes_who_waits_in_another_process(
    open_live: OpenLive,
    redis_server: RedisServer,
    never: threading.Event,
    eventually: Eventually,
) -> None:
    one, other = open_live(), open_live()
    # It rings once as Redis comes.
    assert other.bell.wait(FOR_EVER, never)
    one.tell(News(work=True))
    assert other.bell.wait(FOR_EVER, never)
    eventually(lambda: one.counts.rings == {SENT: 1}, "it was sent")
    assert other.counts.rings == {HEARD: 1}
    eventually(lambda: one.wakeups() == 2, "both were counted for all to see")
    redis_server.ask("SET", "tunebook:here:wakeups", "what others wrote")
    assert one.wakeups() is None


def test_while_redis_is_away_it_rings_here_and_workers_look_more_often(
    redis_server: RedisServer, open_live: OpenLive, never: threading.Event, eventually: Eventually
) -> None:
    live = open_live()
    # It rings once as Redis comes.
    assert live.bell.wait(FOR_EVER, never)
    assert live.bell.look_seconds == SHARED_SECONDS
    redis_server.kill()
    # Whoever waits looks for itself now: what rings elsewhere is not heard any more.
    assert live.bell.wait(FOR_EVER, never)
    assert live.bell.look_seconds == ALONE_SECONDS
    live.tell(News(work=True))
    assert live.bell.wait(FOR_EVER, never)
    eventually(lambda: live.counts.rings.get(LOST) == 1, "that others did not hear is counted")
