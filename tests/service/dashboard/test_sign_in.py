"""Who sees the pages: sessions by tokens, and forms that nobody else sends."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from page_visits import (
    FORM,
    HOST,
    code_of,
    sign_in,
)

from tunebook.cache.access.tokens import NewToken, Role
from tunebook.cache.store import Store
from tunebook.service.api.settings import Settings
from tunebook.service.app import create_app
from tunebook.service.dashboard.signing_in import form_code, own_address


def test_who_is_not_signed_in_is_sent_to_sign_in_and_comes_back(
    client: TestClient, token: NewToken
) -> None:
    sent = client.get("/?window=7d")
    assert (sent.status_code, sent.headers["location"]) == (303, "/sign-in?next=%2F%3Fwindow%3D7d")
    form = client.get(sent.headers["location"])
    assert 'name="next" value="/?window=7d"' in form.text
    assert sign_in(client, token.secret, next="/?window=7d").headers["location"] == "/?window=7d"
    assert client.get("/?window=7d").status_code == 200


@pytest.mark.parametrize("elsewhere", ["//elsewhere.example", "https://elsewhere.example/"])
def test_signing_in_leads_nowhere_else(client: TestClient, token: NewToken, elsewhere: str) -> None:
    assert sign_in(client, token.secret, next=elsewhere).headers["location"] == "/"
    assert client.get("/sign-in", params={"next": elsewhere}).headers["location"] == "/"


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.BOARD])
def test_every_role_that_may_read_may_sign_in(client: TestClient, store: Store, role: Role) -> None:
    assert sign_in(client, store.tokens.create("lab", role).secret).status_code == 303


def test_a_token_of_one_board_may_not_sign_in(client: TestClient, store: Store) -> None:
    refused = sign_in(client, store.tokens.create("lab", Role.BOARD, "rpi4/pi-1").secret)
    assert refused.status_code == 403
    assert "A token of role board may not read these pages." in refused.text


@pytest.mark.parametrize("secret", ["", "tbk_read_nobody", "\N{SNOWMAN}", "x" * 3000])
def test_an_unknown_token_may_not_sign_in(client: TestClient, secret: str) -> None:
    refused = sign_in(client, secret)
    assert refused.status_code == 401
    assert "This token is not known here." in refused.text
    assert "tunebook-session" not in client.cookies


def test_a_revoked_token_may_not_sign_in(client: TestClient, store: Store, token: NewToken) -> None:
    store.tokens.revoke(token.token.id)
    refused = sign_in(client, token.secret)
    assert refused.status_code == 401
    assert "This token was revoked." in refused.text


def test_revoking_a_token_ends_its_session_at_once(
    reader: TestClient, store: Store, token: NewToken
) -> None:
    assert reader.get("/").status_code == 200
    store.tokens.revoke(token.token.id)
    assert reader.get("/").status_code == 303
    part = reader.get("/running-jobs", headers={"HX-Request": "true"})
    assert (part.status_code, part.headers["HX-Redirect"]) == (401, "/sign-in")


def test_signing_out_ends_the_session_for_whoever_has_its_cookie(reader: TestClient) -> None:
    stolen = reader.cookies["tunebook-session"]
    out = reader.post("/sign-out", data={"csrf": code_of(reader.get("/"))}, headers=FORM)
    assert (out.status_code, out.headers["location"]) == (303, "/sign-in")
    assert "tunebook-session" not in reader.cookies
    reader.cookies.set("tunebook-session", stolen)
    assert reader.get("/").status_code == 303


def test_a_session_ends_by_itself_after_half_a_day(store: Store, token: NewToken) -> None:
    now = datetime.now(timezone.utc)
    secret = store.sessions.start(token.token.id, now, timedelta(hours=12))
    assert store.sessions.find(secret, now + timedelta(hours=11)) is not None
    assert store.sessions.find(secret, now + timedelta(hours=12)) is None


@pytest.mark.parametrize("secure", [False, True])
def test_no_script_reads_the_cookie_and_no_other_site_sends_it(
    store: Store, token: NewToken, tmp_path: Path, secure: bool
) -> None:
    settings = Settings(models=str(tmp_path / "models"), secure=secure)
    scheme, name = ("https", "__Host-tunebook-session") if secure else ("http", "tunebook-session")
    origin = f"{scheme}://{HOST}"
    with TestClient(create_app(settings, store), base_url=origin, follow_redirects=False) as client:
        form = {"csrf": code_of(client.get("/sign-in")), "token": token.secret}
        answer = client.post("/sign-in", data=form, headers={"Origin": origin})
    (cookie,) = [one for one in answer.headers.get_list("set-cookie") if one.startswith(name)]
    attributes = [one.strip().lower() for one in cookie.split(";")[1:]]
    assert {"httponly", "samesite=strict", "path=/"} <= set(attributes)
    assert ("secure" in attributes) == secure
    assert not any(one.startswith(("domain", "max-age", "expires")) for one in attributes)
    assert token.secret not in cookie


def test_a_form_without_the_code_signs_nobody_in(client: TestClient, token: NewToken) -> None:
    client.get("/sign-in")
    for code in ("", "0" * 64, "\N{SNOWMAN}"):
        data = {"csrf": code, "token": token.secret}
        assert client.post("/sign-in", data=data, headers=FORM).status_code == 403
    assert client.get("/").status_code == 303


def test_a_code_of_another_browser_signs_nobody_in(client: TestClient, token: NewToken) -> None:
    others = code_of(client.get("/sign-in"))
    client.cookies.clear()
    client.get("/sign-in")
    data = {"csrf": others, "token": token.secret}
    assert client.post("/sign-in", data=data, headers=FORM).status_code == 403


def test_a_form_of_another_origin_signs_nobody_out(reader: TestClient) -> None:
    data = {"csrf": code_of(reader.get("/"))}
    for origin in ({"Origin": "http://elsewhere.example"}, {"Origin": "null"}, {}):
        assert reader.post("/sign-out", data=data, headers=origin).status_code == 403
    assert reader.get("/").status_code == 200


def test_signing_out_needs_the_code_of_the_session(reader: TestClient) -> None:
    assert reader.post("/sign-out", data={"csrf": "0"}, headers=FORM).status_code == 403
    assert reader.get("/").status_code == 200


def test_a_form_that_is_too_large_or_no_form_is_refused(client: TestClient) -> None:
    client.get("/sign-in")
    large = client.post("/sign-in", data={"token": "x" * 5000}, headers=FORM)
    assert large.status_code == 413
    other = client.post("/sign-in", json={"token": "x"}, headers=FORM)
    assert other.status_code == 415


def test_the_cookie_opens_pages_only_and_the_api_wants_the_token(reader: TestClient) -> None:
    assert reader.get("/").status_code == 200
    assert reader.get("/api/v1/openapi.json").status_code == 200
    assert reader.get("/api/v1/jobs").status_code == 401


@pytest.mark.parametrize("asked", ["/", "/?window=7d&target=llvm%20-x", "/running-jobs"])
def test_an_address_of_ours_is_followed(asked: str) -> None:
    assert own_address(asked) == asked


@pytest.mark.parametrize(
    "asked",
    [
        "",
        "//elsewhere.example/",
        "/\\elsewhere.example",
        "https://elsewhere.example/",
        "javascript:alert(1)",
        "elsewhere",
        "/a b",
        "/\t/elsewhere.example",
        "/\r\nSet-Cookie: a=b",
    ],
)
def test_any_other_address_is_not(asked: str) -> None:
    assert own_address(asked) == "/"


def test_each_cookie_has_a_form_code_of_its_own_that_does_not_tell_the_cookie() -> None:
    assert form_code("one") == form_code("one")
    assert form_code("one") != form_code("other")
    assert "one" not in form_code("one")
