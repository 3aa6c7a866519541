"""On PostgreSQL too what a look-up, a recovery and a coordinator ask goes by an index.

Tables of tests are so small that reading all of one is the cheapest, or an index from end to end:
that is forbidden here, and done nevertheless where there is no other way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import psycopg
import pytest
from cache_samples import A53, A76, conv, failure, measure, serve
from near_cases import HINTS, NEAR_CASES, WANTED, WANTED_KEY
from queue_samples import claim_new_searched, submit_searched
from sqlalchemy import Connection, event
from sqlalchemy.engine import Engine
from test_query_plans import ASKED_OF_JOBS, GROWING, OF_JOBS

from tunebook.cache.lists.catalogue import RecordFilter, ScheduleFilter, SchedulePosition
from tunebook.cache.records import ErrorClass, Source
from tunebook.cache.store import Store

pytestmark = pytest.mark.postgresql

# Indexes that hold a few of the rows: what is open, or doubtful.
SMALL = ("uq_jobs_open", "uq_rounds_open", "ix_records_suspect")
PAGES: dict[str, Callable[[Store], object]] = {
    "the newest records": lambda store: store.catalogue.records(RecordFilter(), before=1000),
    "records of a key": lambda store: store.catalogue.records(
        RecordFilter(key=WANTED_KEY), before=1000
    ),
    "records of a target": lambda store: store.catalogue.records(
        RecordFilter(target=A76), before=1000
    ),
    "failures": lambda store: store.catalogue.records(
        RecordFilter(error=ErrorClass.RUN), before=1000
    ),
    "verified records": lambda store: store.catalogue.records(
        RecordFilter(verified=True), before=1000
    ),
    "imported records": lambda store: store.catalogue.records(
        RecordFilter(source=Source.IMPORT), before=1000
    ),
    "schedules": lambda store: store.catalogue.schedules(
        ScheduleFilter(target=A76), after=SchedulePosition(1, 1, False)
    ),
}


@pytest.mark.parametrize("asked", ASKED_OF_JOBS)
def test_no_query_of_a_coordinator_reads_all_jobs_there_ever_were(
    postgresql_url: str, asked: str
) -> None:
    with Store.open(postgresql_url) as store:
        job = submit_searched(store)
        claimed = claim_new_searched(store, job)
        store.finish_round(claimed.id, claimed.epoch)
        store.set_exhausted(claimed.task_id)
        found = plans(postgresql_url, lambda: ASKED_OF_JOBS[asked](store, job))
    assert found
    assert read_from_end_to_end(found, OF_JOBS) == []


@pytest.mark.parametrize("ask", ["lookup", "near"])
def test_no_look_up_reads_a_whole_table(postgresql_url: str, ask: str) -> None:
    keys = [WANTED_KEY, *(conv(size).key.on(A53) for size in (7, 14, 28))]
    with Store.open(postgresql_url) as store:
        for case in NEAR_CASES:
            serve(store, case.stored, target=case.target)
        measure(store, WANTED, {"a": failure()})
        found = plans(
            postgresql_url,
            (lambda: store.lookup(keys, hints=HINTS))
            if ask == "lookup"
            else (lambda: [store.near(key, hints=HINTS) for key in keys]),
        )
    assert found
    assert read_from_end_to_end(found, GROWING) == []


@pytest.mark.parametrize("page", PAGES)
def test_no_page_of_a_list_reads_a_whole_table(postgresql_url: str, page: str) -> None:
    with Store.open(postgresql_url) as store:
        serve(store, conv())
        measure(store, WANTED, {"a": failure()})
        found = plans(postgresql_url, lambda: PAGES[page](store))
    assert found
    assert read_from_end_to_end(found, GROWING) == []


def plans(url: str, ask: Callable[[], object]) -> list[Any]:
    """The plans of all that is asked meanwhile."""
    asked: dict[str, Any] = {}

    @event.listens_for(Engine, "before_cursor_execute")
    def note(_c: Connection, _u: object, statement: str, parameters: Any, *_: object) -> None:
        asked.setdefault(statement, parameters)

    try:
        ask()
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    with psycopg.connect(url, cursor_factory=psycopg.ClientCursor) as connection:
        for way in ("seqscan", "mergejoin", "hashjoin"):
            connection.execute(f"SET enable_{way} = off")  # type: ignore[arg-type]
        return [
            plan(connection, statement, parameters)
            for statement, parameters in asked.items()
            if statement.startswith("SELECT")
        ]


def plan(connection: psycopg.Connection[Any], statement: str, parameters: Any) -> Any:
    row = connection.execute(f"EXPLAIN (FORMAT JSON) {statement}", parameters).fetchone()  # type: ignore[arg-type]
    assert row is not None
    document = json.loads(row[0]) if isinstance(row[0], str) else row[0]
    return document[0]["Plan"]


def read_from_end_to_end(found: list[Any], tables: tuple[str, ...]) -> list[str]:
    """The steps that read all of one of these tables, or of one of its indexes."""
    return [
        f"{node['Node Type']} on {node['Relation Name']}"
        for one in found
        for node in nodes(one)
        if node.get("Relation Name") in tables and not is_narrowed(node)
    ]


def nodes(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield node
    for part in node.get("Plans", ()):
        yield from nodes(part)


def is_narrowed(node: Mapping[str, Any]) -> bool:
    """Whether a step reads only what an index finds, or all of an index that holds few rows."""
    return any("Index Cond" in one or one.get("Index Name") in SMALL for one in nodes(node))
