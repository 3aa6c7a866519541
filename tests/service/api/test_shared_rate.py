"""A rate that replicas share is asked of Redis now and then, and lets through what one may."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from redis_server import RedisServer

from tunebook.cache.live.live import Live
from tunebook.cache.live.live_counts import FROM_PROCESS, FROM_REDIS
from tunebook.service.api.guards.shared_rate import SharedRate

Eventually = Callable[..., None]
# So slow that nothing comes back during a test, and so quick that some are taken at once.
SLOW, QUICK = 0.001, 100.0
BURST = 400
REDIS_STAYS = pytest.mark.usefixtures("patient_redis")


@pytest.fixture
def lives(redis_server: RedisServer, eventually: Eventually) -> Iterator[list[Live]]:
    with ExitStack() as ends:
        found = [ends.enter_context(Live.open(redis_server.url, "here")) for _ in range(2)]
        for live in found:
            eventually(lambda live=live: live.is_up, "Redis is there")
        yield found


def rate(live: Live, per_second: float, burst: int) -> SharedRate:
    return SharedRate("token", live, per_second, burst, clients=100)


def ask(rates: list[SharedRate], count: int) -> list[float]:
    """So many requests of one client at once, in turn to each replica; how long each is to wait."""

    async def all_at_once() -> list[float]:
        turns = itertools.islice(itertools.cycle(rates), count)
        return list(await asyncio.gather(*(one.wait("client") for one in turns)))

    return asyncio.run(all_at_once())


@REDIS_STAYS
def test_requests_at_once_are_let_through_up_to_one_burst(lives: list[Live]) -> None:
    waits = ask([rate(live, SLOW, 10) for live in lives], 100)
    assert waits.count(0) == 10


@REDIS_STAYS
def test_where_some_are_taken_at_once_no_more_pass_and_hardly_fewer(lives: list[Live]) -> None:
    began = time.monotonic()
    rates = [rate(live, QUICK, BURST) for live in lives]
    passed = ask(rates, 3 * BURST).count(0)
    assert passed <= BURST + QUICK * (time.monotonic() - began)
    # Each replica may still hold some, which it would have spent next.
    assert passed >= BURST - 2 * BURST // 100


@REDIS_STAYS
def test_redis_is_not_asked_for_each(lives: list[Live], redis_server: RedisServer) -> None:
    ask([rate(lives[0], QUICK, BURST)], 200)
    calls = redis_server.ask("INFO", "commandstats")["cmdstat_evalsha"]["calls"]
    # Four at once; what is not spent within a second is taken anew.
    assert calls <= 200 / 2


@REDIS_STAYS
def test_who_was_refused_is_refused_without_asking_until_it_has_waited(
    lives: list[Live], redis_server: RedisServer
) -> None:
    shared, other = (rate(live, SLOW, 1) for live in lives)
    assert ask([other], 1) == [0]
    assert all(ask([shared], 50))
    calls = redis_server.ask("INFO", "commandstats")["cmdstat_evalsha"]["calls"]
    assert calls <= 3


@REDIS_STAYS
def test_a_client_that_is_refused_owes_nothing_for_it(
    lives: list[Live], redis_server: RedisServer, eventually: Eventually
) -> None:
    mine, other = (rate(live, SLOW, 3) for live in lives)
    assert ask([other], 3) == [0, 0, 0]
    assert all(ask([mine], 5))
    redis_server.kill()
    eventually(lambda: not lives[0].is_up, "its end is noticed")
    # This process has let nothing through so far.
    assert ask([mine], 4).count(0) == 3


@pytest.mark.parametrize("fault", ["killed", "paused"])
def test_while_redis_is_away_each_process_counts_for_itself(
    lives: list[Live], redis_server: RedisServer, fault: str
) -> None:
    rates = [rate(live, SLOW, 10) for live in lives]
    assert ask(rates, 4) == [0] * 4
    redis_server.kill() if fault == "killed" else redis_server.pause()
    assert ask(rates, 60).count(0) == 2 * 8
    assert lives[0].counts.decisions[FROM_PROCESS, "refused"] == 30 - 8


def test_without_redis_a_process_decides_alone() -> None:
    live = Live.open(None)
    assert ask([rate(live, SLOW, 3)], 5).count(0) == 3
    assert live.counts.decisions == {(FROM_PROCESS, "allowed"): 3, (FROM_PROCESS, "refused"): 2}
    assert FROM_REDIS not in {source for source, _ in live.counts.decisions}
