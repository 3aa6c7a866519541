"""How much one request may ask for; what is more has a status of its own, and never a 500."""

from __future__ import annotations

import asyncio
import gzip
import re
import tracemalloc
import zlib
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send

from tunebook.cache.access.tokens import Role
from tunebook.service.api.guards.limits import BodyLimits, unpack
from tunebook.service.api.guards.rates import Rate
from tunebook.service.api.problems.problems import Problem
from tunebook.service.api.settings import Limits

MakeClient = Callable[..., TestClient]
ProblemOf = Callable[[Any], str]
LOOKUPS = "/api/v1/lookups"
JSON = {"Content-Type": "application/json"}
LIMIT = 10_000
SMALL = Limits(body_bytes=LIMIT)


def in_pieces(body: bytes) -> Iterator[bytes]:
    """A body whose size is not declared."""
    for start in range(0, len(body), 1000):
        yield body[start : start + 1000]


@pytest.mark.parametrize("size", [LIMIT - 1, LIMIT])
def test_a_body_up_to_the_limit_is_read(make_client: MakeClient, size: int) -> None:
    body = b'"' + b"x" * (size - 2) + b'"'
    response = make_client(Role.ADMIN, limits=SMALL).post(LOOKUPS, content=body, headers=JSON)
    assert response.status_code == 422


MANY = 3000
UNKNOWN = {f"unknown{number}": 0 for number in range(MANY)}
EMPTY = [{}] * 2000
SHAPES = {f"input{number}": [] for number in range(MANY)}
WRONG_SHAPES = {"shapes": {f"input{number}": [0] * 16 for number in range(64)}}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("lookups", UNKNOWN),
        ("lookups", {"workloads": EMPTY}),
        ("lookups", {"workloads": [UNKNOWN]}),
        ("lookups", {"workloads": [{"likeness": UNKNOWN}]}),
        ("lookups", {"shapes": SHAPES}),
        ("lookups", {"shapes": {"input": [0] * MANY}}),
        ("lookups", {"target": UNKNOWN}),
        ("models/holding", UNKNOWN),
        ("models/holding", {"workloads": EMPTY}),
        ("models/holding", {"workloads": [UNKNOWN]}),
        ("jobs", UNKNOWN),
        ("jobs", {"budget": UNKNOWN}),
        ("jobs", {"shapes": SHAPES}),
        ("budgets", UNKNOWN),
        ("plans", UNKNOWN),
        ("plans", {"jobs": [{"target": 0}] * 2000}),
        ("plans", {"jobs": [WRONG_SHAPES] * 2000}),
        ("plans", {"jobs": [{"shapes": SHAPES}]}),
        ("plans", {"budget": UNKNOWN}),
        ("plans", {"boards": SHAPES}),
    ],
    ids=lambda value: value if isinstance(value, str) else "+".join(value)[:9],
)
def test_a_body_with_very_many_faults_has_few_of_them_found(
    make_client: MakeClient, problem_of: ProblemOf, path: str, body: dict[str, Any]
) -> None:
    """Each that is found takes memory and time: a body of the size that is accepted has room for
    millions."""
    response = make_client(Role.ADMIN).post(f"/api/v1/{path}", json=body)
    assert (response.status_code, problem_of(response)) == (422, "invalid")
    more = re.search(r"\(and (\d+) more\)", response.json()["detail"])
    assert more is None or int(more[1]) < 1100


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "in pieces"])
@pytest.mark.parametrize("method", ["POST", "DELETE", "PATCH"])
def test_a_body_beyond_the_limit_is_too_large(
    make_client: MakeClient, problem_of: ProblemOf, method: str, declared: bool
) -> None:
    body = b"x" * (LIMIT + 1)
    response = make_client(Role.ADMIN, limits=SMALL).request(
        method, LOOKUPS, content=body if declared else in_pieces(body), headers=JSON
    )
    assert response.status_code == 413
    assert problem_of(response) == "too-large"
    assert response.json()["limit"] == LIMIT


def test_a_packed_body_is_read(make_client: MakeClient) -> None:
    response = make_client(Role.ADMIN).post(
        LOOKUPS,
        content=gzip.compress(b'{"target": 1}'),
        headers={**JSON, "Content-Encoding": "gzip"},
    )
    assert response.status_code == 422
    assert any("target" in error["where"] for error in response.json()["errors"])


def test_a_small_body_that_unpacks_to_a_large_one_is_too_large(make_client: MakeClient) -> None:
    bomb = gzip.compress(b" " * 100 * 2**20)
    assert len(bomb) < 200_000
    response = make_client(Role.ADMIN).post(
        LOOKUPS, content=bomb, headers={**JSON, "Content-Encoding": "gzip"}
    )
    assert response.status_code == 413


def test_unpacking_takes_no_more_memory_than_the_limit() -> None:
    bomb = gzip.compress(b" " * 50 * 2**20)
    tracemalloc.start()
    with pytest.raises(Problem):
        unpack(bomb, 2**20)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4 * 2**20


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"",
        gzip.compress(b"{}")[:-1],
        gzip.compress(b"{}")[:5],
        gzip.compress(b"{}") + b"more",
        gzip.compress(b"{}") + gzip.compress(b"{}"),
        zlib.compress(b"{}"),
        b"\x1f\x8b" + b"\0" * 20,
    ],
    ids=["plain", "empty", "cut short", "a head", "more", "two", "zlib", "nonsense"],
)
def test_what_only_claims_to_be_packed_is_invalid(
    make_client: MakeClient, problem_of: ProblemOf, body: bytes
) -> None:
    response = make_client(Role.ADMIN).post(
        LOOKUPS, content=body, headers={**JSON, "Content-Encoding": "gzip"}
    )
    assert response.status_code == 422
    assert problem_of(response) == "invalid"


@given(st.binary(max_size=2000))
def test_unpacking_gives_what_was_packed(body: bytes) -> None:
    assert unpack(gzip.compress(body), 2000) == body


@given(st.binary(max_size=200))
def test_unpacking_anything_is_a_body_or_a_problem(body: bytes) -> None:
    try:
        assert len(unpack(body, 100)) <= 100
    except Problem as problem:
        assert problem.status in (413, 422)


@pytest.mark.parametrize("encoding", ["br", "deflate", "zstd", "gzip, gzip", "x" * 5000])
def test_other_packings_are_refused_with_the_one_that_is_read(
    make_client: MakeClient, encoding: str
) -> None:
    response = make_client(Role.ADMIN).post(
        LOOKUPS, content=b"{}", headers={**JSON, "Content-Encoding": encoding}
    )
    assert response.status_code == 415
    assert response.headers["accept-encoding"] == "gzip"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"1" * 10_000,
        b'"\\ud800"',
        b"NaN",
        b"1e999",
        b"null",
        b"\0",
    ],
    ids=lambda body: repr(body[:12]),
)
@pytest.mark.parametrize("path", [LOOKUPS, "/api/v1/jobs", "/api/v1/budgets"])
def test_no_body_whatsoever_is_more_than_invalid(
    make_client: MakeClient, problem_of: ProblemOf, path: str, body: bytes
) -> None:
    response = make_client(Role.ADMIN).post(path, content=body, headers=JSON)
    assert response.status_code in (400, 422)
    assert problem_of(response) in ("invalid", "bad-request")


def test_little_is_read_of_whoever_shows_no_token(
    make_client: MakeClient, problem_of: ProblemOf
) -> None:
    """The page's sign-in is such a body."""
    page = {"Origin": "http://127.0.0.1:8470"}
    response = make_client().post("/anything", content=b"x" * 70_000, headers=page)
    assert response.status_code == 413
    assert problem_of(response) == "too-large"


async def no_answer(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that reads the body and answers nothing."""
    await receive()


def ask(
    limited: BodyLimits, receive: Receive, method: str = "POST", path: str = "/"
) -> Coroutine[Any, Any, None]:
    async def send(message: Message) -> None:
        raise AssertionError("nothing is answered here")

    scope = {"type": "http", "method": method, "path": path, "headers": [], "state": {"token": 1}}
    return limited(scope, receive, send)


def test_a_body_that_does_not_arrive_is_given_up() -> None:
    async def nothing() -> Message:
        await asyncio.sleep(3600)
        raise AssertionError("it was waited for")

    limited = BodyLimits(no_answer, limits=Limits(body_seconds=0.01))
    with pytest.raises(Problem) as raised:
        asyncio.run(ask(limited, nothing))
    assert raised.value.status == 408


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", "/api/v1/models/" + "0" * 64), ("POST", "/api/v1/import")]
)
def test_an_upload_of_which_nothing_more_arrives_is_given_up(method: str, path: str) -> None:
    pieces = [{"type": "http.request", "body": b"x", "more_body": True}]

    async def stalling() -> Message:
        if pieces:
            return pieces.pop()
        await asyncio.sleep(3600)
        raise AssertionError("it was waited for")

    async def read_all(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["more_body"]:
            pass

    limited = BodyLimits(read_all, limits=Limits(body_seconds=0.05))
    with pytest.raises(Problem) as raised:
        asyncio.run(ask(limited, stalling, method=method, path=path))
    assert raised.value.status == 408


def test_bodies_of_all_requests_together_are_limited_and_forgotten_when_they_end() -> None:
    """Each sends 600 bytes and waits, where 1,000 may be held."""
    limited = BodyLimits(no_answer, limits=Limits(held_bytes=1000))

    async def two_at_once() -> list[int]:
        arrived = asyncio.Event()
        sent = []

        async def rest() -> Message:
            if not sent:
                sent.append(1)
                return {"type": "http.request", "body": b"x" * 600, "more_body": True}
            await arrived.wait()
            return {"type": "http.request", "body": b"", "more_body": False}

        async def whole() -> Message:
            return {"type": "http.request", "body": b"x" * 600, "more_body": False}

        first = asyncio.create_task(ask(limited, rest))
        await asyncio.sleep(0)
        with pytest.raises(Problem) as raised:
            await ask(limited, whole)
        arrived.set()
        await first
        await ask(limited, whole)
        return [raised.value.status]

    assert asyncio.run(two_at_once()) == [503]


# --- rates -----------------------------------------------------------------------------------
class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_is_allowed_and_then_the_rate() -> None:
    clock = Clock()
    rate = Rate(10, burst=3, clients=10, monotonic=clock)
    assert [rate.wait("a") for _ in range(3)] == [0, 0, 0]
    assert rate.wait("a") == pytest.approx(0.1)
    clock.now += 0.1
    assert rate.wait("a") == 0
    assert rate.wait("a") > 0


def test_waiting_as_long_as_told_is_enough() -> None:
    clock = Clock()
    rate = Rate(7, burst=2, clients=10, monotonic=clock)
    while not (wait := rate.wait("a")):
        pass
    clock.now += wait
    assert rate.wait("a") == 0


@given(st.lists(st.floats(0, 2), max_size=60))
def test_no_more_than_the_rate_and_a_burst_ever_pass(pauses: list[float]) -> None:
    clock = Clock()
    rate = Rate(5, burst=4, clients=10, monotonic=clock)
    start = clock.now
    passed = 0
    for pause in pauses:
        clock.now += pause
        passed += rate.wait("a") == 0
        assert passed <= 4 + 5 * (clock.now - start) + 1e-6


def test_clients_do_not_share_a_rate_and_are_not_remembered_without_end() -> None:
    rate = Rate(1, burst=1, clients=100, monotonic=Clock())
    assert [rate.wait(client) for client in range(10_000)] == [0] * 10_000
    assert len(vars(rate)["_paid_off"]) == 100
    assert rate.wait(9_999) > 0
