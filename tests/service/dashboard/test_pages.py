"""The pages over HTTP: who sees them, what they show, and what no text on them can do."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta, timezone
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest
from fastapi.testclient import TestClient

from tunebook.cache.database import upgrade
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.lookup_counts import HIT, LookupCell
from tunebook.cache.lookup_statistics import LookupBatch
from tunebook.cache.mending_trials import TRIALS_A_MISS
from tunebook.cache.missed_keys import MissedKey
from tunebook.cache.misses import Difference, Miss, MissReason
from tunebook.cache.store import Store
from tunebook.cache.submissions import BudgetLimits, JobRequest
from tunebook.cache.tokens import NewToken, Role
from tunebook.service.api.app import create_app
from tunebook.service.api.settings import Settings

HOST = "localhost"
FORM = {"Origin": f"http://{HOST}", "Sec-Fetch-Site": "same-origin"}
PI = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4"
SERVER = "llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -num-cores=2"
COMPILER = "tvm-0.27.0+llvm-22"
BUFFERS = "f32[1,4,12,12] f32[8,4,3,3] -> f32[1,8,10,10]"

ATTACK = "</code></script><script src=//x></script><img src=x onerror=alert(1)>\"' onload=x {{7*7}}"


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with our schema and nothing in it: copying it is quicker than making another."""
    path = tmp_path_factory.mktemp("empty") / "tunebook.db"
    upgrade(str(path))
    return path


@pytest.fixture
def store(empty: Path, tmp_path: Path) -> Iterator[Store]:
    with Store.open(str(shutil.copy(empty, tmp_path))) as opened:
        yield opened


@pytest.fixture
def client(store: Store, tmp_path: Path) -> Iterator[TestClient]:
    settings = Settings(models=str(tmp_path / "models"))
    with TestClient(
        create_app(settings, store), base_url=f"http://{HOST}", follow_redirects=False
    ) as client:
        yield client


@pytest.fixture
def token(store: Store) -> NewToken:
    return store.tokens.create("lab", Role.READ)


@pytest.fixture
def reader(client: TestClient, token: NewToken) -> TestClient:
    """A client that is signed in."""
    assert sign_in(client, token.secret).status_code == 303
    return client


def code_of(page: httpx.Response) -> str:
    """The code in the form of a page."""
    found = re.search(r'name="csrf" value="(\w+)"', page.text)
    assert found is not None
    return found[1]


def sign_in(client: TestClient, secret: str, **fields: str) -> httpx.Response:
    form = {"csrf": code_of(client.get("/sign-in")), "token": secret, **fields}
    return client.post("/sign-in", data=form, headers=FORM)


def key(target: str, op: str = "conv2d+relu", number: int = 1) -> ScheduleKey:
    return ScheduleKey(op, BUFFERS, target, COMPILER, f"{number:016x}")


def count(store: Store, target: str, pipeline: str, hits: int, misses: int) -> None:
    """So many look-ups of this minute."""
    minute = int(datetime.now(timezone.utc).timestamp()) // 60
    cells = {
        LookupCell(target, minute, pipeline, HIT): hits,
        LookupCell(target, minute, pipeline, "never-tuned"): misses,
    }
    store.statistics.add(LookupBatch({cell: number for cell, number in cells.items() if number}))


def note_miss(store: Store, miss: Miss, pipeline: str = "nightly") -> None:
    now = datetime.now(timezone.utc)
    store.statistics.add(LookupBatch({}, [MissedKey(miss, pipeline, 3, now, now)]))


# --- who sees the pages ------------------------------------------------------------------------


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
    refused = sign_in(client, store.tokens.create("lab", Role.BOARD, "pi-1").secret)
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


# --- forms that others send ------------------------------------------------------------------


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


# --- what a browser is told ------------------------------------------------------------------


@pytest.mark.parametrize("address", ["/", "/sign-in", "/running-jobs", "/static/none.js"])
def test_every_page_has_the_strict_policy(reader: TestClient, address: str) -> None:
    headers = reader.get(address, follow_redirects=True).headers
    (policy,) = headers.get_list("content-security-policy")
    assert policy.split("; ") == [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ]
    assert headers.get_list("referrer-policy") == ["same-origin"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


def test_files_are_found_by_their_content_and_nothing_else_is(reader: TestClient) -> None:
    addresses = re.findall(r'(?:src|href)="(/static/[^"]+)"', reader.get("/").text)
    assert len(addresses) >= 7
    for address in addresses:
        answer = reader.get(address)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
    for address in (
        "../routes.py",
        "..%2froutes.py",
        "vendor/README.md",
        "vendor/htmx/LICENSE",
        "",
    ):
        assert reader.get(f"/static/{address}").status_code == 404


class Inspection(HTMLParser):
    """What of a page a browser would run, and what of it is text."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def inspect(page: httpx.Response) -> Inspection:
    inspection = Inspection()
    inspection.feed(page.text)
    return inspection


def assert_inert(page: httpx.Response) -> Inspection:
    """Nothing on the page but what the templates wrote would run."""
    found = inspect(page)
    for tag, attributes in found.tags:
        assert tag not in ("iframe", "object", "embed", "base", "style"), tag
        assert "style" not in attributes
        assert not [name for name in attributes if name.startswith(("on", "hx-on"))], attributes
        address = attributes.get("src") or attributes.get("href") or "/"
        assert address.startswith(("/static/", "/", "#")) and not address.startswith("//")
        if tag == "script":
            assert (attributes["src"] or "").startswith("/static/")
    return found


def test_no_text_of_a_model_an_error_or_a_client_is_read_as_html(
    reader: TestClient, store: Store
) -> None:
    hostile = Miss(
        key=key(PI, op=ATTACK),
        reason=MissReason.OTHER_TARGET,
        nearest=key(SERVER, op=ATTACK),
        differences=(Difference(f"target.{ATTACK}", ATTACK, [ATTACK]),),
        explanation=ATTACK,
        mending_command=f"tunebook tune '{ATTACK}'",
    )
    note_miss(store, hostile, pipeline=ATTACK[:60])
    count(store, ATTACK, ATTACK[:60], 1, 1)
    request = JobRequest(
        digest="0" * 64, shapes=ATTACK, target=PI, board_class="local", name=ATTACK
    )
    store.queue.submit(request, BudgetLimits(trials=10))
    for address in ("/", "/running-jobs"):
        found = assert_inert(reader.get(address))
        assert any(ATTACK in text for text in found.text), address
    assert_inert(reader.get("/", params={"target": ATTACK, "pipeline": ATTACK}))
    assert_inert(reader.get("/", params={"window": ATTACK}))
    reader.cookies.clear()
    assert_inert(reader.get("/sign-in", params={"next": ATTACK}))


def test_a_command_with_line_ends_is_one_line_on_the_page(reader: TestClient, store: Store) -> None:
    command = "tunebook tune 'a\nrm -rf ~"
    note_miss(store, Miss(key(PI), MissReason.NEVER_TUNED, None, (), "never tuned", command))
    assert "tunebook tune &#39;a\\nrm -rf ~" in reader.get("/").text


def test_what_turns_a_text_around_is_written_out(reader: TestClient, store: Store) -> None:
    request = JobRequest("0" * 64, "", PI, "local", name="camera\u202egnp.onnx")
    store.queue.submit(request, BudgetLimits(trials=10))
    assert "camera\\u202egnp.onnx" in reader.get("/running-jobs").text


def test_a_fault_of_the_database_is_a_page_too(reader: TestClient, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "tunebook.db")) as database:
        database.execute("DROP TABLE missed_keys")
    page = reader.get("/")
    assert page.status_code == 503
    assert "The database does not answer" in "".join(assert_inert(page).text)
    assert str(tmp_path) not in page.text


# --- what the page shows ---------------------------------------------------------------------


def rows_of(page: httpx.Response) -> list[list[str]]:
    """The cells of the table of rates, in words."""
    table = page.text.partition('<table class="rates">')[2].partition("</table>")[0]
    return [
        [
            " ".join(re.sub(r"<[^>]+>", " ", cell).split())
            for cell in re.findall(CELL, row, re.DOTALL)
        ]
        for row in re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
    ]


CELL = r"<t[hd].*?</t[hd]>"


def test_targets_and_their_pipelines_come_lowest_first(reader: TestClient, store: Store) -> None:
    count(store, SERVER, "release", 999, 1)
    count(store, PI, "release", 90, 10)
    count(store, PI, "nightly", 5, 95)
    rows = rows_of(reader.get("/"))
    assert rows[0][0] == "Target and pipeline"
    assert [row[0] for row in rows[1:]] == [
        f"cortex-a76, 4 cores {PI}",
        "nightly",
        "release",
        f"znver4, 2 cores {SERVER}",
        "release",
    ]
    # Last hour, 24 hours, 7 days, 30 days, look-ups, misses.
    assert rows[1][2:] == ["47.5 %"] * 4 + ["200", "105"]
    assert rows[4][2:] == ["99.9 %"] * 4 + ["1,000", "1"]


def test_a_page_of_one_pipeline_has_its_rates_only(reader: TestClient, store: Store) -> None:
    count(store, PI, "release", 90, 10)
    count(store, PI, "nightly", 5, 95)
    count(store, SERVER, "release", 1, 0)
    page = reader.get("/?pipeline=nightly")
    rows = rows_of(page)
    assert [row[0] for row in rows[1:]] == [f"cortex-a76, 4 cores {PI}"]
    assert rows[1][2] == "5.0 %"
    assert '<option value="nightly" selected>' in page.text


def test_a_page_of_one_target_has_that_target_only(reader: TestClient, store: Store) -> None:
    count(store, PI, "release", 90, 10)
    count(store, SERVER, "release", 1, 0)
    page = reader.get("/", params={"target": SERVER})
    assert [row[0] for row in rows_of(page)[1:]] == [f"znver4, 2 cores {SERVER}", "release"]


def test_a_window_that_is_none_is_the_last_24_hours(reader: TestClient) -> None:
    assert '<option value="24h" selected>' in reader.get("/?window=never").text


def test_misses_are_grouped_by_cause_with_the_nearest_key_and_the_command(
    reader: TestClient, store: Store
) -> None:
    command = f"tunebook migrate MODEL --target '{PI}'"
    here = f"tunebook submit MODEL --target '{PI}' --trials {TRIALS_A_MISS} --server http://{HOST}"
    for number in (1, 2):
        wanted, nearest = key(PI, number=number), key(SERVER, number=number)
        difference = Difference("target.mcpu", "cortex-a76", "znver4")
        note_miss(
            store,
            Miss(wanted, MissReason.OTHER_TARGET, nearest, (difference,), "other", command),
        )
    words = " ".join(" ".join(inspect(reader.get("/")).text).split())
    assert "2 keys" in words
    assert "other-target (target.mcpu: wanted cortex-a76, stored znver4)" in words
    assert f"nearest {SERVER} | {COMPILER} | {2:016x}" in words
    assert words.count(here) == 1
    assert "missed 6 times on cortex-a76, 4 cores by nightly" in words


def test_an_empty_coordinator_says_what_to_do_next(reader: TestClient) -> None:
    words = " ".join(" ".join(inspect(reader.get("/")).text).split())
    assert "Nothing was looked up yet" in words
    assert f"tunebook lookup MODEL --target TARGET --server http://{HOST}" in words
    assert "No job is running" in words
    assert "tunebook nightly nightly.toml" in words


def test_running_jobs_show_how_much_of_their_budget_is_used(
    reader: TestClient, store: Store
) -> None:
    request = JobRequest("0" * 64, "", PI, "pi5", name="camera")
    store.queue.submit(request, BudgetLimits(trials=1200, seconds=3600))
    words = " ".join(" ".join(inspect(reader.get("/running-jobs")).text).split())
    assert "camera" in words
    assert "0 of 1,200 trials" in words
    assert "0:00 of 1:00:00" in words
    assert "pi5" in words


def test_a_job_that_is_over_is_no_running_job(reader: TestClient, store: Store) -> None:
    request = JobRequest("0" * 64, "", PI, "pi5", name="camera")
    made = store.queue.submit(request, BudgetLimits(trials=1200))
    store.queue.cancel(made.job_id)
    assert "camera" not in reader.get("/running-jobs").text


def test_every_cell_has_a_header_and_every_field_a_label(reader: TestClient, store: Store) -> None:
    count(store, PI, "release", 90, 10)
    text = reader.get("/").text
    found = inspect(reader.get("/"))
    for tag, attributes in found.tags:
        if tag == "th":
            assert "scope" in attributes
        if tag == "img":
            assert "alt" in attributes
    assert text.count("<table") == text.count("<caption")
    labelled = re.findall(r'<label for="(\w+)">\w+</label>\s*<select id="(\w+)"', text)
    assert labelled == [(name, name) for name in ("window", "target", "pipeline")]
    assert '<html lang="en">' in text
