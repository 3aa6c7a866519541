"""Answers that processes share are those that one of them made, at this revision, and not many."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from redis_server import RedisServer

from tunebook.cache.live.live import Live
from tunebook.cache.live.shared_answers import SharedAnswers

OpenLive = Callable[..., Live]
SECRET = b"s" * 32
NAME, OTHER = b"name".ljust(32), b"other".ljust(32)
KEY = "tunebook:here:answers"


@pytest.fixture
def answers(open_live: OpenLive) -> SharedAnswers:
    return open_live(secret=SECRET).answers


def test_what_one_process_puts_there_another_finds(
    answers: SharedAnswers, open_live: OpenLive
) -> None:
    answers.put(NAME, 7, b"\x00answer\xff")
    assert open_live(secret=SECRET).answers.get(NAME, 7) == b"\x00answer\xff"
    assert answers.get(OTHER, 7) is None


def test_an_answer_holds_at_its_revision_only(answers: SharedAnswers) -> None:
    answers.put(NAME, 7, b"seven")
    assert answers.get(NAME, 6) is None
    assert answers.get(NAME, 8) is None
    answers.put(NAME, 8, b"eight")
    # A replica that was slow does not bring back what is over.
    answers.put(OTHER, 7, b"seven")
    assert answers.get(NAME, 8) == b"eight"
    assert answers.get(OTHER, 7) is None


def test_of_an_older_revision_nothing_is_kept(
    answers: SharedAnswers, redis_server: RedisServer
) -> None:
    answers.put(OTHER, 7, b"seven")
    answers.put(NAME, 8, b"eight")
    assert set(redis_server.ask("HKEYS", KEY)) == {b"revision", b"size", NAME.hex().encode()}


@pytest.mark.parametrize(
    "forge",
    [
        lambda sealed: b"",
        lambda sealed: b"not sealed at all, but long enough to hold a seal and more",
        lambda sealed: sealed[:-1] + bytes([sealed[-1] ^ 1]),
        lambda sealed: sealed + b"more",
        lambda sealed: bytes(32) + sealed[32:],
    ],
    ids=["empty", "unsealed", "changed", "longer", "another seal"],
)
def test_whoever_writes_to_redis_makes_no_answers(
    answers: SharedAnswers, redis_server: RedisServer, forge: Callable[[bytes], bytes]
) -> None:
    answers.put(NAME, 7, b"true")
    field = NAME.hex()
    redis_server.ask("HSET", KEY, field, forge(redis_server.ask("HGET", KEY, field)))
    assert answers.get(NAME, 7) is None


def test_a_true_answer_to_another_question_or_of_another_time_is_none(
    answers: SharedAnswers, redis_server: RedisServer
) -> None:
    answers.put(NAME, 7, b"true")
    sealed = redis_server.ask("HGET", KEY, NAME.hex())
    redis_server.ask("HSET", KEY, OTHER.hex(), sealed)
    assert answers.get(OTHER, 7) is None
    redis_server.ask("HSET", KEY, "revision", 8)
    assert answers.get(NAME, 8) is None


def test_an_answer_that_was_sealed_with_another_secret_is_none(
    answers: SharedAnswers, open_live: OpenLive
) -> None:
    answers.put(NAME, 7, b"answer")
    assert open_live(secret=b"t" * 32).answers.get(NAME, 7) is None


def test_they_take_no_more_room_than_they_may(
    open_live: OpenLive, redis_server: RedisServer
) -> None:
    live = open_live()
    answers = SharedAnswers(live._link, KEY, SECRET, limit=10_000)
    names = [b"%032d" % number for number in range(50)]
    for name in names:
        answers.put(name, 7, bytes(1000))
        kept = sum(len(value) for value in redis_server.ask("HVALS", KEY))
        assert kept <= 10_000 + len("7") + len("10000")
    assert answers.get(names[-1], 7) == bytes(1000)
    assert redis_server.ask("TTL", KEY) > 0


@pytest.mark.parametrize("written", [("revision", "words"), ("revision", 7, "size", "words")])
def test_what_others_wrote_makes_room_for_answers(
    answers: SharedAnswers, redis_server: RedisServer, written: tuple[str | int, ...]
) -> None:
    redis_server.ask("HSET", KEY, *written)
    answers.put(NAME, 7, b"seven")
    assert answers.get(NAME, 7) == b"seven"


def test_one_that_is_very_large_is_not_shared(answers: SharedAnswers) -> None:
    answers.put(NAME, 7, bytes(5 * 2**20))
    assert answers.get(NAME, 7) is None


def test_without_a_secret_or_without_redis_there_are_none(
    open_live: OpenLive, redis_server: RedisServer
) -> None:
    live = open_live()
    assert not live.answers.is_there
    live.answers.put(NAME, 7, b"answer")
    assert redis_server.ask("EXISTS", KEY) == 0
    assert not Live.open(None, secret=SECRET).answers.is_there
