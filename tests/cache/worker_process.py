"""What the tests let other processes do with a store: `python worker_process.py TASK URL ARGS...`.

Each prints one line of JSON when it is done; `hold` prints it and then waits to be killed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from cache_samples import candidates, conv, propose_all, start_job, success

from tunebook.cache.store import Store


def reserve(url: str, job: str) -> dict[int, int]:
    """Claims rounds of a job until there are none; gives what each round was granted."""
    granted = {}
    with Store.open(url) as store:
        while True:
            claimed = store.claim_round("reserver", int(job))
            if claimed is None:
                return granted
            granted[claimed.id] = claimed.size


def repeat(url: str, round_id: str, epoch: str, times: str) -> int:
    """Stores a result for one slot again and again, each of a quarter of a board second."""
    with Store.open(url) as store:
        for _ in range(int(times)):
            result = success(1.0, board_seconds=0.25)
            store.store_result(int(round_id), int(epoch), 0, result)
    return int(times)


def hold(url: str, job: str) -> int:
    """Claims a round, stores three candidates and the first one's result, and waits."""
    with Store.open(url) as store:
        claimed = store.claim_round("victim", int(job))
        assert claimed is not None
        store.store_candidates(claimed.id, claimed.epoch, candidates("a", "b", "c"))
        store.store_result(claimed.id, claimed.epoch, 0, success(1e-3))
        print(json.dumps(claimed.id), flush=True)
        time.sleep(600)
    return 0


def resume_and_finish(url: str, times: str) -> int:
    """Resumes, works for and finishes one job again and again."""
    with Store.open(url) as store:
        for _ in range(int(times)):
            job = start_job(store, conv(56), conv(28))
            propose_all(store, job, 4)
            store.claim_round("worker", job)
            store.claim_round("worker", job)
            store.finish_job(job, "done")
    return int(times)


def create(url: str) -> str:
    """Opens a database that is not there yet."""
    Store.open(url).close()
    return url


TASKS: dict[str, Callable[..., Any]] = {
    "reserve": reserve,
    "repeat": repeat,
    "hold": hold,
    "resume_and_finish": resume_and_finish,
    "create": create,
}

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](*sys.argv[2:])))
