"""Every error is a problem document with a page about its kind, and none tells what is inside."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from tunebook.cache import errors
from tunebook.cache.access.tokens import Role
from tunebook.cache.errors import DatabaseError, TunebookError
from tunebook.cache.misses import ScheduleMissError
from tunebook.cache.model_files import NoRoomError, WrongDigestError
from tunebook.service.api.problems.problem_types import PROBLEM_TYPES

MakeClient = Callable[..., TestClient]
ProblemOf = Callable[[Any], str]
ERRORS = [
    *(
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, TunebookError)
    ),
    NoRoomError,
    ScheduleMissError,
    WrongDigestError,
]
OPERATIONS = Path(__file__).parents[3] / "docs" / "operations.md"


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_every_error_of_ours_is_a_kind_of_problem(error: type[TunebookError]) -> None:
    assert error.problem_type in PROBLEM_TYPES


@pytest.mark.parametrize("kind", PROBLEM_TYPES)
def test_every_kind_of_problem_has_a_page(make_client: MakeClient, kind: str) -> None:
    page = make_client().get(f"/problems/{kind}")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/plain")
    assert PROBLEM_TYPES[kind].title in page.text


def test_every_kind_of_problem_is_documented_with_its_status() -> None:
    text = OPERATIONS.read_text()
    undocumented = [
        kind for kind, told in PROBLEM_TYPES.items() if f"| `{kind}` | {told.status} |" not in text
    ]
    assert undocumented == []


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/api/v1/nothing", 404, "not-found"),
        ("GET", "/nothing", 404, "not-found"),
        ("GET", "/problems/nothing", 404, "not-found"),
        ("GET", "/api/v1/jobs/", 404, "not-found"),
        ("GET", "/api/v1/%00%ff/..%2f", 404, "not-found"),
        ("PATCH", "/api/v1/jobs", 405, "method-not-allowed"),
        ("GET", "/api/v1/models/xyz", 422, "invalid"),
        ("GET", "/api/v1/models/" + "A" * 64, 422, "invalid"),
        ("GET", "/api/v1/models/" + "a" * 64, 404, "not-found"),
    ],
)
def test_an_address_or_method_that_is_not_there_is_a_problem(
    make_client: MakeClient,
    problem_of: ProblemOf,
    method: str,
    path: str,
    status: int,
    kind: str,
) -> None:
    response = make_client(Role.ADMIN).request(method, path)
    assert response.status_code == status
    assert problem_of(response) == kind
    if status == 405:
        assert "GET" in response.headers["allow"]
        assert "it takes GET, POST" in response.json()["detail"]


def test_a_field_that_cannot_be_read_is_named_with_its_place(
    make_client: MakeClient, problem_of: ProblemOf
) -> None:
    response = make_client(Role.ADMIN).post("/api/v1/budgets", json={"name": 5, "trials": "many"})
    assert problem_of(response) == "invalid"
    places = {error["where"] for error in response.json()["errors"]}
    assert "body.trials" in places


@pytest.mark.parametrize("body", ["[" * 100_000, '{"target": ' + "9" * 5000 + "}"])
def test_json_beyond_what_is_read_is_refused_with_what_to_do(
    make_client: MakeClient, problem_of: ProblemOf, body: str
) -> None:
    response = make_client(Role.ADMIN).post(
        "/api/v1/lookups", content=body, headers={"Content-Type": "application/json"}
    )
    assert (response.status_code, problem_of(response)) == (400, "bad-request")
    assert "send JSON" in response.json()["detail"]


def test_a_long_list_of_faults_is_cut(make_client: MakeClient, problem_of: ProblemOf) -> None:
    body = {"target": "x", "shapes": {f"input{number}": [0, 0] for number in range(60)}}
    response = make_client(Role.ADMIN).post("/api/v1/lookups", json=body)
    assert problem_of(response) == "invalid"
    assert len(response.json()["errors"]) == 20
    assert len(response.content) < 10_000


def raising(app: FastAPI, error: Exception) -> str:
    """A route of this application that fails; no route of ours is known to."""

    @app.get("/failing")
    def fail() -> None:
        raise error

    return "/failing"


def test_what_nobody_expected_is_an_incident_that_only_the_log_explains(
    make_client: MakeClient, problem_of: ProblemOf, caplog: pytest.LogCaptureFixture
) -> None:
    client = make_client()
    path = raising(client.app, ZeroDivisionError("secret of the inside"))  # type: ignore[arg-type]
    with caplog.at_level(logging.ERROR):
        response = client.get(path)
    assert response.status_code == 500
    assert problem_of(response) == "unexpected"
    assert "secret" not in response.text
    assert "Traceback" not in response.text
    (record,) = [one for one in caplog.records if "incident" in vars(one)]
    assert vars(record)["incident"] == response.json()["incident"]
    assert record.exc_info is not None
    assert "secret of the inside" in str(record.exc_info[1])


def test_a_fault_of_the_database_does_not_tell_where_it_lies(
    make_client: MakeClient, problem_of: ProblemOf, caplog: pytest.LogCaptureFixture
) -> None:
    client = make_client()
    path = raising(client.app, DatabaseError("the database /srv/inside.db is full"))  # type: ignore[arg-type]
    with caplog.at_level(logging.ERROR):
        response = client.get(path)
    assert response.status_code == 503
    assert problem_of(response) == "database"
    assert "inside.db" not in response.text
    assert "inside.db" in json.dumps([str(vars(one)) for one in caplog.records])
