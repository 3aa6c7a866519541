"""Requests are made again where that is safe and may help, and never else.

The server here only plays a coordinator: its faults cannot be had from a real one at will.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from faulty_server import HANG_UP, Answer, FaultyServer, faulty_server
from local_ports import holding_port

from tunebook.cache.errors import (
    BudgetError,
    IdempotencyError,
    NotFoundError,
    ServerError,
    TunebookError,
    UnreachableError,
    UsageError,
)
from tunebook.cache.misses import MissReason, ScheduleMissError
from tunebook.cache.remote.client import Client
from tunebook.cache.remote.retries import Retries

FINE = Answer(200, {"fine": True})
BUSY = Answer(429, {"type": "/problems/too-many-requests", "detail": "too often"})
AWAY = Answer(503, {"type": "/problems/database", "detail": "it is locked"})
MISS = {
    "key": "relu | f32[1] -> f32[1] | llvm | tvm | 0",
    "reason": "never-tuned",
    "nearest": None,
    "differences": [],
    "explanation": "no relu was ever tuned",
    "mending_command": "tunebook tune MODEL",
}


class Pauses(list[float]):
    """Notes how long the client would have slept, at random between 0 and 1 times the limit."""

    def retries(self, share: float = 1.0) -> Retries:
        return Retries(
            patience=1.5,
            sleep=self.append,
            draw=lambda low, high: low + share * (high - low),
            now=lambda: 784111777.0,
            monotonic=lambda: sum(self),
        )


def client_of(server: FaultyServer, pauses: Pauses) -> Client:
    return Client(server.url, "token", retries=pauses.retries())


def client_of_both(first: FaultyServer, second: FaultyServer, pauses: Pauses) -> Client:
    return Client(f"{first.url}, {second.url}/", "token", retries=pauses.retries())


@pytest.mark.parametrize("fault", [HANG_UP, BUSY, AWAY, Answer(502, "proxy")], ids=str)
@pytest.mark.parametrize(
    ("method", "path", "key"),
    [
        ("GET", "/jobs", None),
        ("PUT", "/models/00", None),
        ("DELETE", "/jobs/1", None),
        ("POST", "/lookups", None),
        ("POST", "/plans", None),
        ("POST", "/jobs", "a key"),
    ],
)
def test_what_may_be_repeated_is_made_again(
    fault: Answer | str, method: str, path: str, key: str | None
) -> None:
    pauses = Pauses()
    with faulty_server(fault, fault, FINE) as server, client_of(server, pauses) as client:
        assert client.request(method, path, {}, key) == {"fine": True}
        assert len(server.requests) == 3
        keys = {headers.get("Idempotency-Key") for _, _, headers, _ in server.requests}
    assert pauses == [0.25, 0.5]
    assert keys == {key}


@pytest.mark.parametrize("fault", [HANG_UP, AWAY], ids=str)
def test_what_may_have_been_done_is_not_made_again(fault: Answer | str) -> None:
    pauses = Pauses()
    with (
        faulty_server(fault, FINE) as server,
        client_of(server, pauses) as client,
        pytest.raises(UnreachableError),
    ):
        client.request("POST", "/jobs", {})
    assert (len(server.requests), pauses) == (1, [])


def test_what_was_refused_for_its_rate_was_not_done() -> None:
    with faulty_server(BUSY, FINE) as server, client_of(server, Pauses()) as client:
        assert client.request("POST", "/jobs", {}) == {"fine": True}


@pytest.mark.parametrize(
    ("asked", "pause"),
    [("7", 7.0), ("Sun, 06 Nov 1994 08:49:47 GMT", 10.0), ("soon", 0.25), ("0", 0.0)],
)
def test_a_server_says_how_long_to_wait(asked: str, pause: float) -> None:
    pauses = Pauses()
    busy = Answer(429, {}, {"Retry-After": asked})
    with faulty_server(busy, FINE) as server, client_of(server, pauses) as client:
        client.request("GET", "/jobs")
    assert pauses == [pause]


def test_a_server_that_asks_for_a_very_long_wait_is_not_waited_for() -> None:
    pauses = Pauses()
    busy = Answer(429, BUSY.body, {"Retry-After": "3600"})
    with (
        faulty_server(busy) as server,
        client_of(server, pauses) as client,
        pytest.raises(UnreachableError, match="too often"),
    ):
        client.request("GET", "/jobs")
    assert pauses == []


def test_waits_are_drawn_below_a_limit_that_doubles() -> None:
    retries = Pauses().retries(share=0.5)
    assert [retries.pause(attempt) for attempt in range(7)] == [
        *(0.125, 0.25, 0.5, 1.0),
        *(2.0, 2.0, 2.0),
    ]


@pytest.mark.parametrize("fault", [HANG_UP, AWAY], ids=str)
def test_it_gives_up_once_its_patience_is_over(fault: Answer | str) -> None:
    pauses = Pauses()
    with (
        faulty_server(fault) as server,
        client_of(server, pauses) as client,
        pytest.raises(UnreachableError) as raised,
    ):
        client.request("GET", "/jobs")
    assert (len(server.requests), len(pauses)) == (4, 3)
    assert server.url in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("text", "seconds"), [("", 30.0), (" 7 ", 7.0), ("0", 0.0)])
def test_the_environment_says_how_patient_it_is(text: str, seconds: float) -> None:
    assert Retries.of({"TUNEBOOK_PATIENCE": text}).patience == seconds


@pytest.mark.parametrize("text", ["long", "-1", "1.5", "10000000", "\N{SUPERSCRIPT TWO}"])
def test_a_patience_that_is_no_number_of_seconds_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="TUNEBOOK_PATIENCE") as raised:
        Client("http://127.0.0.1:9", "token", environment={"TUNEBOOK_PATIENCE": text})
    assert "\n" not in str(raised.value)


def test_without_patience_nothing_is_made_again() -> None:
    with (
        faulty_server(AWAY) as server,
        Client(server.url, "token", environment={"TUNEBOOK_PATIENCE": "0"}) as client,
        pytest.raises(UnreachableError),
    ):
        client.request("GET", "/jobs")
    assert len(server.requests) == 1


@pytest.mark.parametrize("fault", [HANG_UP, AWAY], ids=str)
def test_where_one_replica_is_away_the_next_is_asked_at_once_and_from_then_on(
    fault: Answer | str,
) -> None:
    pauses = Pauses()
    with (
        faulty_server(fault) as first,
        faulty_server(FINE) as second,
        client_of_both(first, second, pauses) as client,
    ):
        for _ in range(3):
            assert client.request("GET", "/jobs") == {"fine": True}
        assert client.url == second.url
    assert (len(first.requests), len(second.requests), pauses) == (1, 3, [])


def test_where_all_replicas_are_away_it_waits_between_two_rounds_through_them() -> None:
    pauses = Pauses()
    with (
        faulty_server(AWAY, AWAY, FINE) as first,
        faulty_server(AWAY) as second,
        client_of_both(first, second, pauses) as client,
    ):
        assert client.request("GET", "/jobs") == {"fine": True}
    assert (len(first.requests), len(second.requests), pauses) == (3, 2, [0.25, 0.5])


def test_of_several_replicas_each_is_asked_before_it_gives_up() -> None:
    with (
        faulty_server(AWAY) as first,
        faulty_server(FINE) as second,
        Client(
            f"{first.url},{second.url}", "token", environment={"TUNEBOOK_PATIENCE": "0"}
        ) as client,
    ):
        assert client.request("GET", "/jobs") == {"fine": True}


def test_what_may_have_been_done_is_not_asked_of_another_replica() -> None:
    with (
        faulty_server(HANG_UP) as first,
        faulty_server(FINE) as second,
        client_of_both(first, second, Pauses()) as client,
        pytest.raises(UnreachableError),
    ):
        client.request("POST", "/jobs", {})
    assert (len(first.requests), len(second.requests)) == (1, 0)


def test_who_asks_too_often_waits_and_does_not_ask_another_replica() -> None:
    pauses = Pauses()
    with (
        faulty_server(BUSY, FINE) as first,
        faulty_server(FINE) as second,
        client_of_both(first, second, pauses) as client,
    ):
        client.request("GET", "/jobs")
    assert (len(first.requests), len(second.requests), pauses) == (2, 0, [0.25])


def test_one_address_that_is_none_among_several_is_refused() -> None:
    with pytest.raises(UsageError, match="'b:8470' is no address of a coordinator"):
        Client("http://a:8470,b:8470", "token")


def test_a_model_is_read_from_the_replica_that_answers() -> None:
    pauses = Pauses()
    with (
        faulty_server(AWAY) as first,
        faulty_server(Answer(200, "a model")) as second,
        client_of_both(first, second, pauses) as client,
    ):
        assert b"".join(client.read("0" * 64)) == b"a model"
    assert pauses == []


def test_a_coordinator_that_does_not_listen_is_named() -> None:
    with holding_port() as port:
        url = f"http://127.0.0.1:{port}"
        pauses = Pauses()
        with (
            Client(url, "token", retries=pauses.retries()) as client,
            pytest.raises(UnreachableError, match=f"{url} does not answer"),
        ):
            client.request("POST", "/jobs", {})
    # It was never sent, so trying again is safe.
    assert len(pauses) == 3


@pytest.mark.parametrize(
    ("answer", "error", "told"),
    [
        (
            Answer(404, {"type": "/problems/not-found", "detail": "no job 7"}),
            NotFoundError,
            "no job",
        ),
        (
            Answer(422, {"type": "/problems/budget", "detail": "too small"}),
            BudgetError,
            "too small",
        ),
        (
            Answer(422, {"type": "/problems/idempotency-key-reused", "detail": "used"}),
            IdempotencyError,
            "used",
        ),
        (
            Answer(
                422,
                {
                    "type": "/problems/invalid",
                    "detail": "bad",
                    "errors": [{"where": "body.x", "message": "no"}],
                },
            ),
            ServerError,
            "bad; body.x: no",
        ),
        (
            Answer(
                422,
                {
                    "type": "/problems/invalid",
                    "detail": "body.x: no",
                    "errors": [{"where": "body.x", "message": "no"}],
                },
            ),
            ServerError,
            "refuses: body.x: no$",
        ),
        (Answer(403, {"type": "/problems/forbidden", "detail": "role read"}), ServerError, "role"),
        (Answer(404, "<html>nothing here</html>"), ServerError, "no reason"),
        (Answer(500, {"type": "/problems/unexpected", "detail": "x"}), ServerError, "refuses"),
        (Answer(302, "", {"Location": "http://elsewhere/"}), ServerError, "sends to http://else"),
        (Answer(200, "no JSON"), ServerError, "not JSON"),
    ],
    ids=lambda one: str(one.status) if isinstance(one, Answer) else "",
)
def test_an_answer_that_is_no_success_is_an_error_of_one_line(
    answer: Answer, error: type[TunebookError], told: str
) -> None:
    with (
        faulty_server(answer) as server,
        client_of(server, Pauses()) as client,
        pytest.raises(error, match=told) as raised,
    ):
        client.request("GET", "/jobs/7")
    assert type(raised.value) is error
    assert "\n" not in str(raised.value)


def test_a_problem_with_misses_is_a_miss() -> None:
    answer = Answer(409, {"type": "/problems/schedule-miss", "detail": "1", "misses": [MISS]})
    with (
        faulty_server(answer) as server,
        client_of(server, Pauses()) as client,
        pytest.raises(ScheduleMissError) as raised,
    ):
        client.request("POST", "/lookups", {})
    (miss,) = raised.value.misses
    assert (miss.reason, str(miss.key)) == (MissReason.NEVER_TUNED, MISS["key"])


def lookup_answer(**change: Any) -> Answer:
    fine: dict[str, Any] = {
        "digest": "",
        "hits": [],
        "misses": [MISS],
        "counts": {"hits": 0, "misses": 1},
        "passed_over": [],
    }
    return Answer(200, {**fine, **change})


@pytest.mark.parametrize(
    "answer",
    [
        FINE,
        Answer(200, []),
        lookup_answer(misses=[{**MISS, "reason": "bad-luck"}]),
        lookup_answer(misses=[{**MISS, "key": "relu"}]),
        lookup_answer(misses=[{**MISS, "nearest": "relu"}]),
    ],
)
def test_an_answer_of_another_form_is_named_as_one(answer: Answer) -> None:
    with (
        faulty_server(answer) as server,
        client_of(server, Pauses()) as client,
        pytest.raises(ServerError, match="as no coordinator of this version does"),
    ):
        client.lookup_model("0" * 64, "llvm")


def test_an_upload_that_breaks_off_is_sent_again_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"0123456789" * 10_000)
    missing = Answer(404, "")
    with (
        faulty_server(missing, HANG_UP, AWAY, FINE) as server,
        client_of(server, Pauses()) as client,
    ):
        client.upload_model("0" * 64, path)
    sent = [(method, len(body)) for method, _, _, body in server.requests]
    assert sent == [("HEAD", 0), *[("PUT", 100_000)] * 3]


def test_a_token_follows_no_redirection() -> None:
    with faulty_server(FINE) as elsewhere:
        moved = Answer(307, "", {"Location": elsewhere.url})
        with (
            faulty_server(moved) as server,
            client_of(server, Pauses()) as client,
            pytest.raises(ServerError),
        ):
            client.request("GET", "/jobs")
        assert elsewhere.requests == []
