"""What eight processes write at once is all there afterwards, counted one by one: that none of them
met a lock proves nothing."""

from __future__ import annotations

from typing import Any

from cache_samples import candidates, conv, propose_all
from processes import run_numbered
from queue_samples import claim_searched, submit_searched
from sqlalchemy import create_engine, text
from store_contract import StoreFixtures

from tunebook.cache.queue.submissions import BudgetLimits
from tunebook.cache.storage.database import parse_url
from tunebook.cache.store import Store

PROCESSES, TIMES = 8, 10
WRITES = PROCESSES * TIMES


class WritersContract(StoreFixtures):
    def test_nothing_that_eight_processes_write_at_once_is_lost(
        self, store: Store, url: str
    ) -> None:
        job = submit_searched(store, conv(), budget=BudgetLimits(trials=WRITES))
        propose_all(store, job, WRITES)
        claimed = claim_searched(store)
        assert claimed is not None
        names = [str(number) for number in range(WRITES)]
        store.store_candidates(claimed.id, claimed.epoch, candidates(*names))
        before = {name: number(url, query) for name, query in COUNTED.items()}
        written = run_numbered(PROCESSES, "write_all", url, job, claimed.id, claimed.epoch, TIMES)
        assert sum(written) == WRITES
        counted = {name: number(url, query) - before[name] for name, query in COUNTED.items()}
        assert counted == {
            "records": WRITES,
            "filled slots": WRITES,
            "trials": WRITES,
            "board seconds": WRITES / 4,
            # Storing a result is a beat too.
            "beats of the round": 2 * WRITES,
            "events": WRITES,
            "number of the last event": WRITES,
            "look-ups": WRITES,
            # The first one makes the row.
            "beats of the worker": WRITES - 1,
        }


COUNTED = {
    "records": "SELECT count(*) FROM records",
    "filled slots": "SELECT count(record_id) FROM slots WHERE charged",
    "trials": "SELECT sum(spent) FROM budgets",
    "board seconds": "SELECT sum(board_seconds) FROM budgets",
    "beats of the round": "SELECT sum(beat) FROM rounds",
    "events": "SELECT count(*) FROM job_events",
    "number of the last event": "SELECT sum(last) FROM job_event_heads",
    "look-ups": "SELECT sum(count) FROM lookup_counts",
    "beats of the worker": "SELECT sum(beat) FROM workers",
}


def number(url: str, query: str) -> Any:
    """What a query counts, 0 for nothing."""
    engine = create_engine(parse_url(url))
    try:
        with engine.connect() as connection:
            return connection.execute(text(query)).scalar_one() or 0
    finally:
        engine.dispose()
