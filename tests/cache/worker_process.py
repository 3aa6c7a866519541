"""What the tests let other processes do with a store: `python worker_process.py TASK URL ARGS...`.

Each prints one line of JSON when it is done; `hold`, `hold_split` and `announce` print it and then
wait to be killed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from cache_samples import A76, BOARD, candidates, conv, model_of, propose_all, start_job, success
from queue_samples import TRIALS, append_events, claim_searched, claim_split, request_for

from tunebook.cache.errors import LeaseLostError
from tunebook.cache.queue.fleet import ServedBoard
from tunebook.cache.queue.submissions import BudgetLimits, Idempotency
from tunebook.cache.records import Workload
from tunebook.cache.statistics.lookup_counts import HIT, LookupCell
from tunebook.cache.statistics.lookup_statistics import LookupBatch
from tunebook.cache.storage.database import upgrade as upgrade_schema
from tunebook.cache.store import Store


def opened(url: str) -> Store:
    """A store whose leases do not die where one of many processes has to wait for a while."""
    return Store.open(url, lease_seconds=600)


def reserve(url: str, job: str) -> dict[int, int]:
    """Claims rounds of a job until there are none; gives what each round was granted."""
    granted = {}
    with opened(url) as store:
        while True:
            claimed = store.claim_round("reserver", int(job))
            if claimed is None:
                return granted
            granted[claimed.id] = claimed.size


def repeat(url: str, round_id: str, epoch: str, times: str) -> int:
    """Stores a result for one slot again and again, each of a quarter of a board second."""
    with opened(url) as store:
        for _ in range(int(times)):
            result = success(1.0, board_seconds=0.25)
            store.store_result(int(round_id), int(epoch), 0, result)
    return int(times)


def hold(url: str, job: str) -> int:
    """Claims a round, stores three candidates and the first one's result, and waits."""
    with opened(url) as store:
        claimed = store.claim_round("victim", int(job))
        assert claimed is not None
        store.store_candidates(claimed.id, claimed.epoch, candidates("a", "b", "c"))
        store.store_result(claimed.id, claimed.epoch, 0, success(1e-3))
        print(json.dumps(claimed.id), flush=True)
        time.sleep(600)
    return 0


def resume_and_finish(url: str, times: str) -> int:
    """Resumes, works for and finishes one job again and again."""
    with opened(url) as store:
        for _ in range(int(times)):
            job = start_job(store, conv(56), conv(28))
            propose_all(store, job, 4)
            store.claim_round("worker", job)
            store.claim_round("worker", job)
            store.finish_job(job, "done")
    return int(times)


def submit(url: str, times: str, key: str = "") -> list[int]:
    """Submits one job again and again, with a key or without; gives the jobs' ids."""
    idempotency = Idempotency("client", key, "body") if key else None
    with opened(url) as store:
        made = [
            store.queue.submit(request_for(), TRIALS, idempotency).job_id for _ in range(int(times))
        ]
    return sorted(set(made)) if key else made


def work_searched(url: str) -> int:
    """Claims, measures and finishes rounds of all submitted jobs until there are none; gives how
    many trials it made. Every other round finds one candidate less than it was granted."""
    spent = 0
    with opened(url) as store:
        while claimed := claim_searched(store):
            names = [f"{claimed.id}-{number}" for number in range(claimed.size)]
            wanted = names[claimed.id % 2 :]
            slots = store.store_candidates(claimed.id, claimed.epoch, candidates(*wanted))
            for slot in slots:
                result = store.store_result(claimed.id, claimed.epoch, slot.number, success(1.0))
                spent += not result.repeated
            store.finish_round(claimed.id, claimed.epoch)
            propose_all(store, claimed.job_id, 4)
    return spent


def live(url: str, budget: str, times: str) -> int:
    """Submits jobs with workloads in common, works on whatever there is, cancels some, and ends
    what is spent, again and again; gives how many trials it made."""
    random = Random(os.getpid())
    trials = 0
    with opened(url) as store:
        for _ in range(int(times)):
            store.fleet.announce(str(os.getpid()), [ServedBoard(BOARD, "board-1", False, 4)])
            own = BudgetLimits(trials=random.randint(1, 9))
            wanted = request_for(*_random_workloads(random))
            store.queue.submit(wanted, random.choice([own, int(budget)]))
            _work_on_a_stage(store, random)
            for job in store.queue.searching([BOARD]):
                propose_all(store, job.job_id, random.randint(1, 4))
                store.set_untuned_seconds(random.choice(store.task_states(job.job_id)).id, 1.0)
            trials += _work_on_a_round(store)
            if random.random() < 0.3:
                store.queue.cancel(random.choice(store.queue.jobs()).id)
            store.queue.end_spent()
            store.queue.note_waiting()
    return trials


def _random_workloads(random: Random) -> list[Workload]:
    return [conv(size) for size in random.sample((7, 14, 28, 56), 2)]


def _work_on_a_stage(store: Store, random: Random) -> None:
    stage = store.queue.claim_stage("worker", ["split", "recover"], [BOARD])
    if stage is None:
        return
    # Another may cancel the job at any time.
    with suppress(LeaseLostError):
        if stage.stage == "recover":
            store.queue.finish_recovery(stage.job_id, stage.epoch)
        elif random.random() < 0.1:
            store.queue.fail_stage(stage.job_id, stage.epoch, "it is no model", "log")
        else:
            model = store.save_model(model_of(_random_workloads(random)))
            store.queue.finish_split(stage.job_id, stage.epoch, model)


def _work_on_a_round(store: Store) -> int:
    claimed = claim_searched(store)
    if claimed is None:
        return 0
    trials = 0
    with suppress(LeaseLostError):
        names = [f"{claimed.id}-{number}" for number in range(claimed.size)]
        for slot in store.store_candidates(claimed.id, claimed.epoch, candidates(*names)):
            result = success(1.0, board_seconds=0.25)
            store.store_result(claimed.id, claimed.epoch, slot.number, result)
            trials += 1
        store.finish_round(claimed.id, claimed.epoch, 1.0)
    return trials


def use_seconds(url: str, budget: str, times: str) -> float:
    """Works for a budget again and again, as others do; gives how many seconds were counted."""
    counted, observed = 0.0, 0.0
    # Of another length in each process, and without rounding.
    seconds = 1.0 + os.getpid() / 2**22
    with opened(url) as store:
        for _ in range(int(times)):
            before, observed = observed, store.queue.use_seconds(int(budget), observed, seconds)
            if observed == before + seconds:
                counted += seconds
    return counted


def hold_split(url: str) -> int:
    """Claims the splitting of a job, and waits."""
    with opened(url) as store:
        claimed = claim_split(store, "victim")
        assert claimed is not None
        print(json.dumps(claimed.job_id), flush=True)
        time.sleep(600)
    return 0


def announce(url: str) -> int:
    """Is there with a board, and waits."""
    with opened(url) as store:
        store.fleet.announce("victim", [ServedBoard(BOARD, "board-1", False, 4)])
        print("0", flush=True)
        time.sleep(600)
    return 0


def tell(url: str, job: str, times: str) -> list[int]:
    """Adds events to a job; gives their numbers."""
    return append_events(url, int(job), int(times))


def write_all(url: str, job: str, round_id: str, epoch: str, times: str, number: str) -> int:
    """Writes one of everything that a fleet writes at once, again and again: results into slots of
    its own, beats, events, look-up counts, and a worker's presence."""
    cell = LookupCell(A76, 1, "ci", HIT)
    with opened(url) as store:
        for turn in range(int(times)):
            slot = int(number) * int(times) + turn
            store.store_result(int(round_id), int(epoch), slot, success(1.0, board_seconds=0.25))
            store.beat(int(round_id), int(epoch))
            store.statistics.add(LookupBatch({cell: 1}))
            store.fleet.announce("all", [ServedBoard(BOARD, "board-1", False, 4)])
    append_events(url, int(job), int(times))
    return int(times)


def create(url: str) -> str:
    """Opens a database that is not there yet."""
    Store.open(url).close()
    return url


def upgrade(url: str) -> str | None:
    """Brings a database forward; gives the version that it had."""
    before, _ = upgrade_schema(url)
    return before


TASKS: dict[str, Callable[..., Any]] = {
    "reserve": reserve,
    "repeat": repeat,
    "hold": hold,
    "resume_and_finish": resume_and_finish,
    "write_all": write_all,
    "create": create,
    "upgrade": upgrade,
    "submit": submit,
    "work_searched": work_searched,
    "live": live,
    "use_seconds": use_seconds,
    "hold_split": hold_split,
    "announce": announce,
    "tell": tell,
}

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](*sys.argv[2:])))
