"""What the page of the boards shows."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from page_visits import inspect

from tunebook.cache.boards.board_reports import BoardReport, ClassDefaults
from tunebook.cache.queue.fleet import ServedBoard
from tunebook.cache.store import Store

REPORT = BoardReport(
    cpu_model="Cortex-A72", cores=4, temperature_c=61.5, throttled=("capped",), registered=True
)


def rows_of(client: TestClient) -> list[list[str]]:
    """The cells of the table, in words, its head first."""
    page = client.get("/boards").text
    return [
        [
            " ".join(re.sub(r"<[^>]+>", " ", cell).split())
            for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)
        ]
        for row in re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    ]


def change(tmp_path: Path, changes: str) -> None:
    with closing(sqlite3.connect(tmp_path / "tunebook.db", timeout=60)) as database:
        database.execute(f"UPDATE boards SET {changes}")
        database.commit()


def test_who_is_not_signed_in_sees_no_board(client: TestClient, store: Store) -> None:
    answer = client.get("/boards")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?next=%2Fboards")


def test_boards_are_shown_with_what_any_of_them_tells(reader: TestClient, store: Store) -> None:
    store.boards.report("rpi4b", "pi-1", REPORT)
    store.fleet.announce("w", [ServedBoard("rpi5", "pi-7", False, 4, {"serving": True})])
    assert rows_of(reader) == [
        ["Board", "State", "CPU", "Temperature"],
        ["pi-1 class rpi4b", "there", "Cortex-A72, 4 cores", "61.5 °C, capped"],
        ["pi-7 class rpi5", "serving", "4 cores", ""],
    ]


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        (
            "quarantine = 'it takes 2 ms', quarantined_at = '2026-01-01 06:00:00'",
            "quarantined is in quarantine since 2026-01-01 06:00 UTC: it takes 2 ms",
        ),
        ("reported_at = '2026-01-01 06:00:00'", "silent since 2026-01-01 06:00 UTC"),
    ],
)
def test_what_is_wrong_with_a_board_is_said(
    reader: TestClient, store: Store, tmp_path: Path, changes: str, state: str
) -> None:
    store.boards.report("rpi4b", "pi-1", REPORT)
    change(tmp_path, changes)
    assert rows_of(reader)[1][1] == state
    (shown,) = re.findall(r'class="state (\w+)"', reader.get("/boards").text)
    assert shown == "poor"


def test_what_completes_the_targets_of_a_class_is_said(reader: TestClient, store: Store) -> None:
    store.boards.set_defaults("rpi4b", ClassDefaults(4, "aarch64-linux-gnu", "cortex-a72"))
    said = "targets of class rpi4b have -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -num-cores=4"
    assert any(said in text for text in inspect(reader.get("/boards")).text)


def test_without_boards_the_page_says_how_one_gets_known(reader: TestClient) -> None:
    assert "No board is known" in reader.get("/boards").text


@pytest.mark.parametrize(("address", "name"), [("/", "Hit rate"), ("/boards", "Boards")])
def test_each_page_leads_to_the_others(reader: TestClient, address: str, name: str) -> None:
    page = reader.get(address).text
    links = re.findall(r'<li><a href="([^"]+)"( aria-current="page")?>([^<]+)</a></li>', page)
    assert [(place, text) for place, _, text in links] == [("/", "Hit rate"), ("/boards", "Boards")]
    assert [text for _, current, text in links if current] == [name]
