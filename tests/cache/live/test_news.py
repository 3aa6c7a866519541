"""News go to all other processes of the same database, once, and nothing else is taken for some."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from hypothesis import given
from hypothesis import strategies as st
from redis_server import RedisServer

from tunebook.cache.live.live import Live
from tunebook.cache.live.live_counts import FROM_PROCESS, FROM_REDIS
from tunebook.cache.live.news import Message, News

Eventually = Callable[..., None]
OpenLive = Callable[..., Live]
EVENTS = st.dictionaries(st.integers(1, 2**31), st.integers(1, 2**31))
NEWS = st.builds(News, st.booleans(), EVENTS)
MEMBERS = st.sampled_from(["from", "work", "events"])
DOCUMENTS = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(MEMBERS, inner),
)


class Heard:
    """What a Live was told of."""

    def __init__(self, live: Live) -> None:
        self.all: list[tuple[dict[int, int], str]] = []
        live.on_events(self._hear)

    def _hear(self, events: Mapping[int, int], source: str) -> None:
        self.all.append((dict(events), source))


def test_news_are_heard_here_at_once_and_elsewhere_over_redis(
    open_live: OpenLive, eventually: Eventually
) -> None:
    one, other = open_live(), open_live()
    here, there = Heard(one), Heard(other)
    one.tell(News(events={3: 7}))
    assert here.all == [({3: 7}, FROM_PROCESS)]
    eventually(lambda: bool(there.all), "it was heard")
    assert there.all == [({3: 7}, FROM_REDIS)]
    other.tell(News(events={4: 1}))
    eventually(lambda: len(here.all) == 2, "the answer was heard")
    # Nobody hears of its own news a second time.
    assert there.all == [({3: 7}, FROM_REDIS), ({4: 1}, FROM_PROCESS)]


def test_databases_that_share_a_redis_hear_nothing_of_each_other(
    open_live: OpenLive, eventually: Eventually
) -> None:
    one, same, another = open_live("a"), open_live("a"), open_live("b")
    heard, unheard = Heard(same), Heard(another)
    one.tell(News(work=True, events={1: 1}))
    eventually(lambda: bool(heard.all), "it was heard")
    assert unheard.all == []
    assert another.counts.rings == {}


def test_what_is_no_news_of_ours_is_passed_over(
    redis_server: RedisServer, open_live: OpenLive, eventually: Eventually
) -> None:
    live = open_live()
    heard = Heard(live)
    for text in (b"\xff\x00", b"[1]", b'{"from": "x", "events": {"a": 1}}', b"[" * 100_000):
        redis_server.ask("PUBLISH", "tunebook:here:news", text)
    redis_server.ask("PUBLISH", "tunebook:here:news", '{"from": "x", "events": {"1": 2}}')
    eventually(lambda: bool(heard.all), "what follows is heard")
    assert heard.all == [({1: 2}, FROM_REDIS)]


@given(NEWS)
def test_a_message_arrives_as_it_was_sent(news: News) -> None:
    assert Message.parse(Message("process", news).text()) == Message("process", news)


@given(st.one_of(st.binary(), st.text(), DOCUMENTS.map(json.dumps)))
def test_whatever_arrives_does_no_harm(text: bytes | str) -> None:
    message = Message.parse(text)
    assert message is None or isinstance(message.news, News)


@given(NEWS, NEWS)
def test_of_news_together_the_newest_events_stay(one: News, other: News) -> None:
    both = one.and_also(other)
    assert both.work == (one.work or other.work)
    assert both.events.keys() == one.events.keys() | other.events.keys()
    for job_id, number in both.events.items():
        assert number == max(one.events.get(job_id, 0), other.events.get(job_id, 0))


def test_no_news_are_nothing() -> None:
    assert not News()
    assert News(work=True)
    assert News(events={1: 1})
