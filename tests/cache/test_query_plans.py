"""What a look-up and a recovery ask costs the same however much is stored: all goes by an index."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from cache_samples import A53, conv, failure, measure, serve
from near_cases import HINTS, NEAR_CASES, WANTED, WANTED_KEY
from sqlalchemy import Connection, event
from sqlalchemy.engine import Engine

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
    # Of one target there may be as many records as there are.
    whole = [f"SCAN {table}" for table in GROWING] + ["SEARCH records USING INDEX ix_records_new"]
    assert any("ix_workloads_structure" in step for step in steps)
    assert [step for step in steps if step.startswith(tuple(whole))] == []
