"""Processes that share a bucket let through together what one may."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from redis_server import RedisServer

from tunebook.cache.live.live import Live
from tunebook.cache.live.shared_rates import Grant

OpenLive = Callable[..., Live]
# So slow that nothing comes back during a test.
SLOW = 0.001


def granted(live: Live, client: str, burst: int, want: int = 1) -> int:
    grant = live.rates.take(client, SLOW, burst, want)
    assert grant is not None
    return grant.requests


def test_two_processes_share_one_burst(open_live: OpenLive) -> None:
    lives = open_live(), open_live()
    let_through = [granted(lives[number % 2], "client", burst=10) for number in range(30)]
    assert let_through == [1] * 10 + [0] * 20


def test_at_once_too(open_live: OpenLive) -> None:
    lives = [open_live() for _ in range(3)]
    with ThreadPoolExecutor(8) as threads:
        each = threads.map(lambda number: granted(lives[number % 3], "client", 40), range(200))
        assert sum(each) == 40


def test_several_are_taken_as_far_as_there_are_any(open_live: OpenLive) -> None:
    live = open_live()
    assert [granted(live, "client", 10, want=4) for _ in range(4)] == [4, 4, 2, 0]


def test_clients_and_databases_have_buckets_of_their_own(open_live: OpenLive) -> None:
    one, other = open_live("a"), open_live("b")
    buckets = [(one, "x"), (one, "y"), (other, "x")]
    assert [granted(live, client, 1) for live, client in buckets] == [1, 1, 1]
    assert [granted(live, client, 1) for live, client in buckets] == [0, 0, 0]


def test_waiting_as_long_as_told_is_enough(open_live: OpenLive) -> None:
    live = open_live()
    assert live.rates.take("client", 20, 1, 1) == Grant(1, 0.0)
    # Where this machine stands still another one may at once.
    others = (live.rates.take("client", 20, 1, 1) for _ in range(1000))
    refused = next(one for one in others if one != Grant(1, 0.0))
    assert refused is not None
    assert refused.requests == 0
    assert 0 < refused.wait <= 1 / 20
    time.sleep(refused.wait)
    assert live.rates.take("client", 20, 1, 1) == Grant(1, 0.0)


def test_no_more_than_the_rate_and_a_burst_ever_pass(open_live: OpenLive) -> None:
    live, rate, burst = open_live(), 200.0, 5
    began = time.monotonic()
    passed = 0
    while passed < 4 * burst:
        grant = live.rates.take("client", rate, burst, 3)
        assert grant is not None
        passed += grant.requests
        assert passed <= burst + rate * (time.monotonic() - began)


def test_a_bucket_goes_by_itself_once_it_is_paid_off(
    redis_server: RedisServer, open_live: OpenLive
) -> None:
    live = open_live()
    assert live.rates.take("client", 0.01, 10, 2) == Grant(2, 0.0)
    (key,) = redis_server.ask("KEYS", "*:rate:*")
    assert 0 < redis_server.ask("PTTL", key) <= 200_000


@pytest.mark.parametrize("hours", [-5, 5], ids=["back", "forth"])
def test_a_stepped_clock_costs_no_more_than_a_burst(
    redis_server: RedisServer, open_live: OpenLive, hours: int
) -> None:
    """Redis's clock cannot be set from here: what it has stored is moved instead."""
    live = open_live()
    assert granted(live, "client", 2) == 1
    (key,) = redis_server.ask("KEYS", "*:rate:client")
    moved = float(redis_server.ask("GET", key)) - hours * 3600e6
    redis_server.ask("SET", key, moved)
    grant = live.rates.take("client", 10, 2, 1)
    assert grant is not None
    assert grant.wait <= 1 / 10
    time.sleep(grant.wait)
    assert live.rates.take("client", 10, 2, 1) == Grant(1, 0.0)


@pytest.mark.parametrize("written", ["nan", "-nan", "inf", "-inf", "words", "0x7fffffffffffffff"])
def test_what_others_wrote_into_a_bucket_costs_no_more_than_a_burst_and_gives_no_more(
    redis_server: RedisServer, open_live: OpenLive, written: str
) -> None:
    live = open_live()
    redis_server.ask("SET", "tunebook:here:rate:client", written)
    first = live.rates.take("client", 20, 2, 5)
    assert first is not None
    assert 0 <= first.requests <= 2
    time.sleep(1 / 20)
    assert live.rates.take("client", 20, 2, 1) == Grant(1, 0.0)


def test_a_server_that_forgot_the_script_is_told_it_again(
    redis_server: RedisServer, open_live: OpenLive
) -> None:
    live = open_live()
    assert granted(live, "client", 2) == 1
    redis_server.ask("SCRIPT", "FLUSH")
    assert granted(live, "client", 2) == 1
    assert live.counts.failures == {}
