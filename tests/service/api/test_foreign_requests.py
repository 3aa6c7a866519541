"""Pages elsewhere reach nothing through somebody's browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tunebook.cache.access.tokens import Role

MakeClient = Callable[..., TestClient]
ProblemOf = Callable[[Any], str]
LOOKUPS = "/api/v1/lookups"


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8470",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "192.168.1.20:8470",
        "2130706433",
        "",
        "[::1",
        "user@127.0.0.1",
    ],
)
@pytest.mark.parametrize("path", ["/", "/healthz", "/api/v1/jobs"])
def test_a_request_for_another_host_is_refused(
    make_client: MakeClient, problem_of: ProblemOf, host: str, path: str
) -> None:
    response = make_client(Role.ADMIN).get(path, headers={"Host": host})
    assert response.status_code == 421
    assert problem_of(response) == "foreign-host"


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8470", "127.0.0.1", "localhost:1", "LocalHost", "localhost.", "[::1]:8470"]
)
def test_every_spelling_of_this_machine_is_ours(make_client: MakeClient, host: str) -> None:
    assert make_client().get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [("tunebook.lab", 200), ("tunebook.lab:443", 200), ("10.0.0.7:8470", 200), ("other.lab", 421)],
)
def test_beyond_this_machine_it_goes_by_its_names_and_any_address(
    make_client: MakeClient, host: str, status: int
) -> None:
    client = make_client(names=("tunebook.lab",), any_address=True)
    assert client.get("/healthz", headers={"Host": host}).status_code == status


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "https://127.0.0.1",
        "http://127.0.0.1:3000",
        "http://localhost:8470",
        "null",
        "",
        "127.0.0.1:8470",
        "file://127.0.0.1:8470",
    ],
)
@pytest.mark.parametrize(("method", "path"), [("POST", LOOKUPS), ("GET", "/"), ("DELETE", "/")])
def test_a_page_of_another_origin_is_refused(
    make_client: MakeClient, problem_of: ProblemOf, origin: str, method: str, path: str
) -> None:
    response = make_client(Role.ADMIN).request(method, path, headers={"Origin": origin})
    assert response.status_code == 403
    assert problem_of(response) == "foreign-origin"


@pytest.mark.parametrize("origin", ["http://127.0.0.1:8470", "https://127.0.0.1:8470"])
def test_its_own_pages_may_ask(make_client: MakeClient, origin: str) -> None:
    """By TLS too: a proxy may do that."""
    assert make_client().get("/healthz", headers={"Origin": origin}).status_code == 200


def test_no_page_elsewhere_is_allowed_to_read_an_answer(make_client: MakeClient) -> None:
    response = make_client(Role.READ).get("/healthz")
    assert not [name for name in response.headers if name.startswith("access-control-")]


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
        "text/plain; application/json",
    ],
)
def test_a_body_that_a_form_could_send_is_refused(
    make_client: MakeClient, problem_of: ProblemOf, content_type: str | None
) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    response = make_client(Role.ADMIN).post(LOOKUPS, content=b"{}", headers=headers)
    assert response.status_code == 415
    assert problem_of(response) == "unsupported-media"


@pytest.mark.parametrize(
    "content_type", ["application/json", "Application/JSON", "application/json; charset=utf-8"]
)
def test_json_is_read_however_it_is_spelt(make_client: MakeClient, content_type: str) -> None:
    response = make_client(Role.ADMIN).post(
        LOOKUPS, content=b"{}", headers={"Content-Type": content_type}
    )
    assert response.status_code == 422


def test_what_changes_a_page_has_to_say_which_page_it_came_from(
    make_client: MakeClient, problem_of: ProblemOf
) -> None:
    response = make_client().post("/anything")
    assert response.status_code == 403
    assert problem_of(response) == "cross-site"


@pytest.mark.parametrize("path", ["/healthz", "/api/v1/jobs", "/nothing"])
def test_every_answer_tells_browsers_to_be_careful(make_client: MakeClient, path: str) -> None:
    headers = make_client().get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"
