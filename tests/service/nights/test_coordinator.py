"""How a night asks a coordinator that comes and goes. Its answers are made up here: a real one does
not fail at a given request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import httpx
import pytest

from tunebook.cache.errors import ServerError, UnreachableError
from tunebook.cache.remote.client import Client
from tunebook.cache.remote.retries import Retries
from tunebook.service.nights.coordinator import Coordinator, Patience
from tunebook.service.nights.documents import BudgetDocument

BUDGET = {
    "id": 7,
    "name": "night",
    "trials": {"limit": 10, "spent": 4, "in_flight": 1, "left": 5},
    "seconds": {"limit": None, "used": 3.0, "left": None},
    "board_seconds": {"limit": None, "used": 1.0, "left": None},
    "deadline": None,
    "over": None,
}

Answers = list[Callable[[], httpx.Response]]


def found() -> httpx.Response:
    return httpx.Response(200, json=BUDGET)


def lost() -> httpx.Response:
    raise httpx.ConnectError("connection refused")


def restarting() -> httpx.Response:
    return httpx.Response(503, json={"type": "/problems/not-ready", "detail": "not yet"})


@dataclass
class Time:
    """A clock that goes on only while somebody sleeps."""

    now: float = 0.0
    told: list[str] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def patience(self, seconds: float) -> Patience:
        return Patience(lambda: self.now, self.sleep, self.told.append, seconds)


def coordinator(answers: Answers, time: Time, seconds: float = 60.0) -> Coordinator:
    """One that gives these answers in turn, the last one for ever."""

    def answer(request: httpx.Request) -> httpx.Response:
        return answers.pop(0)() if len(answers) > 1 else answers[0]()

    client = Client(
        "http://coordinator.test",
        "token",
        retries=Retries(patience=0),
        transport=httpx.MockTransport(answer),
    )
    return Coordinator(client, time.patience(seconds))


@pytest.mark.parametrize("gone", [lost, restarting])
def test_a_lost_connection_is_waited_for(gone: Callable[[], httpx.Response]) -> None:
    time = Time()
    asked = coordinator([found, gone, gone, gone, found], time)
    assert asked.budget(7) == asked.budget(7) == BudgetDocument.model_validate(BUDGET)
    assert time.now > 0
    assert len(time.told) == 3


def test_patience_ends() -> None:
    time = Time()
    asked = coordinator([found, lost], time, seconds=60.0)
    asked.budget(7)
    with pytest.raises(UnreachableError):
        asked.budget(7)
    assert 60 <= time.now < 70


def test_patience_begins_anew_with_each_answer() -> None:
    time = Time()
    asked = coordinator([found, *[lost] * 20, found, *[lost] * 20, found], time, seconds=60.0)
    for _ in range(3):
        asked.budget(7)
    assert time.now > 70


def test_one_that_never_answered_is_not_waited_for() -> None:
    time = Time()
    with pytest.raises(UnreachableError):
        coordinator([lost], time).budget(7)
    assert time.now == 0


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, json={"id": 7}),
        httpx.Response(200, json=[]),
        httpx.Response(200, text="<html>"),
        httpx.Response(200),
    ],
    ids=["another form", "another kind", "no JSON", "nothing"],
)
def test_a_strange_answer_is_no_coordinators(answer: httpx.Response) -> None:
    with pytest.raises(ServerError) as error:
        coordinator([lambda: answer], Time()).budget(7)
    assert not isinstance(error.value, UnreachableError)
    assert "\n" not in str(error.value)


def test_a_list_is_read_to_its_end() -> None:
    pages: Answers = [
        lambda: httpx.Response(200, json={"items": [{**BUDGET, "name": "a"}], "next": "x"}),
        lambda: httpx.Response(200, json={"items": [{**BUDGET, "name": "b"}], "next": None}),
    ]
    found = coordinator(pages, Time()).find_budget("b")
    assert found is not None
    assert found.name == "b"
