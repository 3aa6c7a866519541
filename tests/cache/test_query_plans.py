"""What a look-up and a recovery ask costs the same however much is stored: all goes by an index."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from cache_samples import A53, A76, BOARD, COMPILER, conv, failure, measure, serve, success
from near_cases import HINTS, NEAR_CASES, WANTED, WANTED_KEY
from queue_samples import (
    claim_new_searched,
    claim_recovery,
    claim_searched,
    submit,
    submit_searched,
)
from sqlalchemy import Connection, event
from sqlalchemy.engine import Engine

from tunebook.cache.lists.catalogue import RecordFilter, ScheduleFilter, SchedulePosition
from tunebook.cache.queue.submissions import JobFilter, JobState
from tunebook.cache.records import ErrorClass, Source
from tunebook.cache.store import Store

# Tables that grow with use. Of targets, which are few, the newest are read.
GROWING = ("records", "workloads", "schedules", "models", "model_tasks")


def plans(url: str, ask: Callable[[], object]) -> list[str]:
    """The steps of SQLite's plans for all that is asked meanwhile."""
    asked: dict[str, Any] = {}

    @event.listens_for(Engine, "before_cursor_execute")
    def note(_c: Connection, _u: object, statement: str, parameters: Any, *_: object) -> None:
        asked.setdefault(statement, parameters)

    try:
        ask()
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    with sqlite3.connect(url) as connection:
        return [
            row[3]
            for statement, parameters in asked.items()
            if statement.startswith("SELECT")
            for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
        ]


# Tables that grow with every job, and what a coordinator asks of them again and again.
OF_JOBS = ("jobs", "budgets", "job_events", "job_event_heads", "tasks", "rounds", "slots")
ASKED_OF_JOBS: dict[str, Callable[[Store, int], object]] = {
    "claim a stage": lambda store, _: claim_recovery(store),
    "claim a round": lambda store, _: claim_searched(store),
    "what is searched for": lambda store, _: store.queue.searching([BOARD]),
    "end what is spent": lambda store, _: store.queue.end_spent(),
    "who waits": lambda store, _: store.queue.note_waiting(),
    "one job": lambda store, job: store.queue.job(job),
    "its events": lambda store, job: store.queue.events(job, after=1),
    "jobs of a budget": lambda store, _: store.queue.jobs(JobFilter(budget_id=1)),
    "open jobs": lambda store, _: store.queue.jobs(JobFilter(states=(JobState.WAITING,))),
    "budgets of a name": lambda store, _: store.queue.budgets("night"),
    "submit": lambda store, _: submit(store, conv(28)),
    "a plan": lambda store, job: store.planning.known_tasks(
        store.queue.job(job).request.digest, "", A76, BOARD
    ),
}


@pytest.mark.parametrize("asked", ASKED_OF_JOBS)
def test_no_query_of_a_coordinator_reads_all_jobs_there_ever_were(
    sqlite_url: str, asked: str
) -> None:
    with Store.open(sqlite_url) as store:
        job = submit_searched(store)
        claimed = claim_new_searched(store, job)
        store.finish_round(claimed.id, claimed.epoch)
        store.set_exhausted(claimed.task_id)
        steps = plans(sqlite_url, lambda: ASKED_OF_JOBS[asked](store, job))
    whole = tuple(f"SCAN {table}" for table in OF_JOBS)
    assert steps
    assert [step for step in steps if step.startswith(whole)] == []


def test_the_newest_jobs_are_read_without_sorting_all(sqlite_url: str) -> None:
    with Store.open(sqlite_url) as store:
        submit(store)
        steps = plans(sqlite_url, lambda: store.queue.jobs(limit=1))
    assert [step for step in steps if "TEMP B-TREE" in step] == []


@pytest.mark.parametrize("ask", ["lookup", "near"])
def test_no_query_reads_a_whole_table(sqlite_url: str, ask: str) -> None:
    keys = [WANTED_KEY, *(conv(size).key.on(A53) for size in (7, 14, 28))]
    with Store.open(sqlite_url) as store:
        for case in NEAR_CASES:
            serve(store, case.stored, target=case.target)
        measure(store, WANTED, {"a": failure()})
        steps = plans(
            sqlite_url,
            (lambda: store.lookup(keys, hints=HINTS))
            if ask == "lookup"
            else (lambda: [store.near(key, hints=HINTS) for key in keys]),
        )
    # Of one target there may be as many records and schedules as there are.
    of_target = ("ix_records_newest", "ix_schedules_target")
    assert any("ix_workloads_structure" in step for step in steps)
    assert [step for step in steps if step.startswith(tuple(f"SCAN {t}" for t in GROWING))] == []
    assert [step for step in steps if any(index in step for index in of_target)] == []


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        (RecordFilter(), "SEARCH records USING INTEGER PRIMARY KEY (rowid<?)"),
        (RecordFilter(key=WANTED_KEY), "(workload_id=? AND target_id=?"),
        (RecordFilter(target=A76), "ix_records_newest (target_id=? AND id<?)"),
        (RecordFilter(op="conv2d+add+relu"), "(workload_id=?"),
        (RecordFilter(error=ErrorClass.RUN), "ix_records_failed (error=? AND id<?)"),
        (RecordFilter(failed=True), "ix_records_failed (error=?"),
        (RecordFilter(verified=True), "ix_records_verified (id<?)"),
        (RecordFilter(source=Source.IMPORT), "ix_records_unsearched (source=? AND id<?)"),
        (RecordFilter(suspect=True), "ix_records_suspect"),
        (RecordFilter(target=A76, verified=True), "ix_records_verified (id<?)"),
        (RecordFilter(target=A76, error=ErrorClass.RUN), "ix_records_failed (error=? AND id<?)"),
    ],
    ids=str,
)
def test_a_page_of_records_is_found_by_an_index_for_what_it_is_filtered_by(
    sqlite_url: str, wanted: RecordFilter, index: str
) -> None:
    with Store.open(sqlite_url) as store:
        measure(store, WANTED, {"a": failure()})
        steps = plans(sqlite_url, lambda: store.catalogue.records(wanted, before=1000))
    assert any(index in step for step in steps if "records" in step), steps
    assert whole_tables(steps, "records") == []


# Suspect records are few: their index holds no others.
SUSPECTS = ("ix_records_suspect",)


def whole_tables(steps: list[str], *tables: str) -> list[str]:
    """The steps that read all of a table, or of an index of all of it."""
    scans = tuple(f"SCAN {table}" for table in tables)
    return [one for one in steps if one.startswith(scans) and not one.endswith(SUSPECTS)]


def judge(store: Store) -> None:
    for seconds in (*[1e-3] * 5, 2e-3, 2e-3):
        store.boards.note_reference(BOARD, "board-1", [seconds], {})


ASKED_OF_BOARDS: dict[str, Callable[[Store], object]] = {
    "is one due": lambda store: store.boards.reference_due(BOARD, "board-1", 900),
    "judge one": judge,
    "who is in quarantine": lambda store: store.boards.quarantined(BOARD),
    "what is suspect": lambda store: store.boards.suspects(BOARD, A76, COMPILER, 8),
    "of which targets": lambda store: store.boards.suspect_targets(BOARD, COMPILER),
    "measured again": lambda store: store.boards.remeasured(1, success(1e-3)),
    "what is served first": lambda store: store.unverified_best(WANTED_KEY),
    "what is learnt": lambda store: store.training_records(A76, COMPILER, 100),
}


@pytest.mark.parametrize("asked", ASKED_OF_BOARDS)
def test_no_query_of_boards_reads_all_that_was_ever_measured(sqlite_url: str, asked: str) -> None:
    with Store.open(sqlite_url) as store:
        judge(store)
        store.boards.begin_baseline(BOARD, "board-1")
        serve(store, WANTED)
        steps = plans(sqlite_url, lambda: ASKED_OF_BOARDS[asked](store))
    tables = ("records", "schedules", "workloads", "slots", "rounds", "reference_runs")
    assert steps
    assert whole_tables(steps, *tables) == []


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        (ScheduleFilter(), "(workload_id,target_id,emulated)>(?,?,?)"),
        (ScheduleFilter(target=A76), "ix_schedules_target (target_id=? AND workload_id>?)"),
        (ScheduleFilter(op="conv2d+add+relu"), "(workload_id=?)"),
    ],
    ids=str,
)
def test_a_page_of_schedules_is_found_by_an_index(
    sqlite_url: str, wanted: ScheduleFilter, index: str
) -> None:
    after = SchedulePosition(1, 1, False)
    with Store.open(sqlite_url) as store:
        serve(store, WANTED)
        steps = plans(sqlite_url, lambda: store.catalogue.schedules(wanted, after=after))
    assert any(index in step for step in steps if "schedules" in step), steps
    assert [step for step in steps if step.startswith("SCAN schedules")] == []


def test_targets_are_counted_by_index(sqlite_url: str) -> None:
    with Store.open(sqlite_url) as store:
        serve(store, WANTED)
        steps = plans(sqlite_url, store.catalogue.targets)
    assert [step for step in steps if step.startswith(("SCAN models", "SCAN schedules"))] == []
    assert any("ix_models_target" in step for step in steps)
