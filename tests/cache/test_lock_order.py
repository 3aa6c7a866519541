"""Transactions that meet on a server lock in one order (SQLite has one writer at a time)."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from cache_samples import propose_all, start_job
from sqlalchemy import Connection, create_engine, text

from tunebook.cache.database import parse_url
from tunebook.cache.store import Store

pytestmark = pytest.mark.postgresql
_WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"
_PATIENCE_SECONDS = 30


def test_a_job_that_is_resumed_while_another_finishes_it_is_made_anew(postgresql_url: str) -> None:
    engine = create_engine(parse_url(postgresql_url))
    with Store.open(postgresql_url) as store, ThreadPoolExecutor(1) as thread:
        job = start_job(store)
        with engine.begin() as finishing:
            # The steps of finish_job, with time between them.
            finishing.execute(text("UPDATE jobs SET state = 'done'"))
            resumed = thread.submit(start_job, store)
            _wait_for_somebody_waiting(finishing)
            finishing.execute(text("UPDATE budgets SET granted = granted"))
        assert resumed.result() != job
    engine.dispose()


def test_a_round_that_is_proposed_while_another_finishes_the_job_is_left_out(
    postgresql_url: str,
) -> None:
    engine = create_engine(parse_url(postgresql_url))
    with Store.open(postgresql_url) as store, ThreadPoolExecutor(1) as thread:
        job = start_job(store)
        with engine.begin() as finishing:
            finishing.execute(text("UPDATE jobs SET state = 'done'"))
            proposed = thread.submit(propose_all, store, job, 4)
            _wait_for_somebody_waiting(finishing)
        assert proposed.result() == 0
    engine.dispose()


def _wait_for_somebody_waiting(connection: Connection) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not connection.execute(text(_WAITING)).scalar_one():
        assert time.monotonic() < deadline, "nobody waits for the lock"
        time.sleep(0.01)
