"""Who may do what: tokens, roles, and how soon a revocation holds."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tunebook.cache.access.tokens import Role
from tunebook.cache.storage.revisions import RevisionWatch
from tunebook.cache.store import Store
from tunebook.service.api.guards.authentication import KnownTokens
from tunebook.service.api.settings import Limits

MakeClient = Callable[..., TestClient]
ProblemOf = Callable[[Any], str]
DIGEST = "0" * 64
MODEL = f"/api/v1/models/{DIGEST}"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer  "},
        {"Authorization": "Basic dXNlcjpwYXNz"},
        {"Authorization": "tbk_admin_0000"},
        {"Authorization": "Bearer tbk_admin_0000"},
        {"Authorization": "Bearer " + "x" * 100_000},
        {"Authorization": b"Bearer \xff\xfe"},
        {"Cookie": "token=tbk_admin_0000"},
    ],
    ids=lambda headers: repr(headers)[:50],
)
@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/nothing", MODEL, "/api/"])
def test_nobody_asks_the_api_without_a_good_token(
    make_client: MakeClient, problem_of: ProblemOf, path: str, headers: dict[str, str]
) -> None:
    response = make_client().get(path, headers=headers)
    assert response.status_code == 401
    assert problem_of(response) == "unauthorized"
    assert response.headers["www-authenticate"].startswith("Bearer")


def test_a_refusal_does_not_repeat_the_secret(make_client: MakeClient) -> None:
    response = make_client().get(MODEL, headers={"Authorization": "Bearer tbk_read_sEcReT"})
    assert "sEcReT" not in response.text


# What each role may do; of what is not listed, nothing.
RIGHTS = {
    Role.READ: {Role.READ},
    Role.SUBMIT: {Role.READ, Role.SUBMIT},
    Role.WORKER: {Role.READ, Role.WORKER},
    Role.BOARD: {Role.BOARD},
    Role.ADMIN: set(Role),
}


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize(
    ("method", "path", "needed"),
    [
        ("HEAD", MODEL, Role.READ),
        ("GET", MODEL, Role.WORKER),
        ("PUT", MODEL, Role.SUBMIT),
        ("GET", "/metrics", Role.READ),
    ],
)
def test_a_route_is_for_the_roles_that_may_do_it(
    make_client: MakeClient, problem_of: ProblemOf, role: Role, method: str, path: str, needed: Role
) -> None:
    response = make_client(role).request(method, path)
    is_refused = response.status_code == 403
    assert is_refused is (needed not in RIGHTS[role])
    if is_refused and method != "HEAD":
        assert problem_of(response) == "forbidden"
        assert needed.value in response.json()["detail"]


def test_every_route_of_the_api_says_who_may_use_it(make_client: MakeClient) -> None:
    """Else every token would do; the one of a board is for nothing but that board."""
    client = make_client(Role.BOARD)
    documented = client.get("/api/v1/openapi.json").json()["paths"]
    assert len(documented) > 10
    allowed = []
    for path, methods in documented.items():
        for method in methods:
            some = re.sub(r"\{\w+\}", "0" * 64 if "sha256" in path else "1", path)
            if client.request(method, some).status_code != 403:
                allowed.append((method, path))
    assert allowed == []


@pytest.mark.parametrize("path", ["/healthz", "/problems", "/api/v1/openapi.json"])
def test_what_is_no_secret_needs_no_token(make_client: MakeClient, path: str) -> None:
    assert make_client().get(path).status_code == 200
    stale = {"Authorization": "Basic whatever"}
    assert make_client().get(path, headers=stale).status_code == 200


@pytest.mark.parametrize("is_quick", [True, False], ids=["as of a file", "as of a server"])
def test_a_revoked_token_is_refused_by_the_very_next_request(
    make_client: MakeClient,
    store: Store,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    is_quick: bool,
) -> None:
    """It is revoked by another process, as far as the coordinator can tell. The way of a database
    server, which is asked in a thread, is taken to the file too."""
    monkeypatch.setattr(RevisionWatch, "is_quick", is_quick)
    client = make_client()
    made = store.tokens.create("night", Role.READ)
    headers = {"Authorization": f"Bearer {made.secret}"}
    assert client.head(MODEL, headers=headers).status_code == 404
    with Store.open(database) as elsewhere:
        elsewhere.tokens.revoke(made.token.id)
    response = client.get(MODEL, headers=headers)
    assert response.status_code == 401
    assert "revoked" in response.json()["detail"]


def test_a_new_token_is_good_at_once(make_client: MakeClient, database: str) -> None:
    client = make_client(Role.READ)
    assert client.head(MODEL).status_code == 404
    with Store.open(database) as elsewhere:
        secret = elsewhere.tokens.create("ci", Role.READ).secret
    headers = {"Authorization": f"Bearer {secret}"}
    assert client.head(MODEL, headers=headers).status_code == 404


def test_a_known_token_is_not_looked_up_again(
    make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Look-ups by the thousand are to cost no query each."""
    client = make_client(Role.READ)
    assert client.head(MODEL).status_code == 404

    async def refuse(*_: object) -> None:
        raise AssertionError("the database was asked for a token that is known")

    monkeypatch.setattr(KnownTokens, "find", refuse)
    assert client.head(MODEL).status_code == 404


def test_whoever_guesses_tokens_is_held_to_a_rate(
    make_client: MakeClient, problem_of: ProblemOf
) -> None:
    client = make_client(limits=Limits(address_rate=0.001, address_burst=5))
    answers = [
        client.get(MODEL, headers={"Authorization": f"Bearer tbk_admin_{guess}"})
        for guess in range(7)
    ]
    assert [one.status_code for one in answers] == [401] * 5 + [429] * 2
    assert problem_of(answers[-1]) == "too-many-requests"
    assert int(answers[-1].headers["retry-after"]) > 0


def test_a_token_is_held_to_its_rate_and_another_is_not_held_up(
    make_client: MakeClient, store: Store
) -> None:
    client = make_client(Role.READ, limits=Limits(token_rate=0.001, token_burst=3))
    statuses = [client.head(MODEL).status_code for _ in range(5)]
    assert statuses == [404, 404, 404, 429, 429]
    other = {"Authorization": f"Bearer {store.tokens.create('other', Role.READ).secret}"}
    assert client.head(MODEL, headers=other).status_code == 404
