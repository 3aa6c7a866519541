"""What a browser is told of the pages, and what no text on them can do."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from page_visits import (
    ATTACK,
    PI,
    SERVER,
    assert_inert,
    count,
    key,
    note_miss,
)

from tunebook.cache.boards.board_reports import BoardReport
from tunebook.cache.misses import Difference, Miss, MissReason
from tunebook.cache.queue.fleet import ServedBoard
from tunebook.cache.queue.submissions import BudgetLimits, JobRequest
from tunebook.cache.store import Store


@pytest.mark.parametrize(
    "address", ["/", "/boards", "/sign-in", "/running-jobs", "/static/none.js"]
)
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
    store.fleet.announce("w", [ServedBoard(ATTACK, ATTACK, False, 4, {"governor": ATTACK})])
    store.boards.report("rpi4b", ATTACK, BoardReport(cpu_model=ATTACK, fault=ATTACK))
    for address in ("/", "/running-jobs", "/boards"):
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
    with closing(sqlite3.connect(tmp_path / "tunebook.db", timeout=60)) as database:
        database.execute("DROP TABLE missed_keys")
    page = reader.get("/")
    assert page.status_code == 503
    assert "The database does not answer" in "".join(assert_inert(page).text)
    assert str(tmp_path) not in page.text
