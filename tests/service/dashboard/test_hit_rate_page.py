"""What the hit-rate page shows."""

from __future__ import annotations

import re

import httpx
from fastapi.testclient import TestClient
from page_visits import (
    COMPILER,
    HOST,
    PI,
    SERVER,
    count,
    inspect,
    key,
    note_miss,
)

from tunebook.cache.mending_trials import TRIALS_A_MISS
from tunebook.cache.misses import Difference, Miss, MissReason
from tunebook.cache.queue.submissions import BudgetLimits, JobRequest
from tunebook.cache.store import Store


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
    trials = 2 * TRIALS_A_MISS
    here = f"tunebook submit MODEL --target '{PI}' --trials {trials} --server http://{HOST}"
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


def test_the_chart_has_a_line_for_each_of_the_eight_lowest_targets(
    reader: TestClient, store: Store
) -> None:
    targets = [f"llvm -mtriple=x86_64-linux-gnu -num-cores={cores}" for cores in range(1, 11)]
    for hits, target in enumerate(targets):
        count(store, target, "release", hits, 10)
    text = reader.get("/").text
    legend = re.findall(r"<bdi>(x86_64, \w+ cores?)</bdi>\s*<output", text)
    assert legend == ["x86_64, 1 core", *(f"x86_64, {cores} cores" for cores in range(2, 9))]
    assert "the 8 targets with the lowest rates" in text


def test_the_chart_has_a_gap_where_nothing_was_looked_up(reader: TestClient, store: Store) -> None:
    count(store, PI, "release", 3, 1)
    values = re.findall(r'data-percent="([^"]*)"', reader.get("/?window=24h").text)
    assert len(values) == 24
    # The hour may have ended since.
    assert sorted(values[-2:]) == ["", "75.0"]
    assert set(values[:-2]) == {""}


def test_a_target_of_many_pipelines_shows_those_with_the_lowest_rates(
    reader: TestClient, store: Store
) -> None:
    for hits in range(9):
        count(store, PI, f"pipeline-{hits}", hits, 10)
    names = [row[0] for row in rows_of(reader.get("/"))[2:]]
    assert names == [
        *(f"pipeline-{hits}" for hits in range(6)),
        "and 3 with higher rates; choose one above",
    ]
