"""Searches as they were stored: those of an older compiler, kept here, and how any are put into a
store."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tunebook.cache.keys import WorkloadKey
from tunebook.cache.records import Candidate, Measurement, Model, Record, Task, Workload
from tunebook.cache.store import RoundProposal, Store

RECORDS = Path(__file__).with_name("records.json")
BOARD_CLASS = "emulated-aarch64"


@dataclass(frozen=True)
class StoredSearch:
    """A model of one task, and what a search of it measured."""

    model: Model
    records: tuple[Record, ...]


def old_compiler_searches() -> list[StoredSearch]:
    """The best that searches under an older compiler found (make.py)."""
    document = json.loads(RECORDS.read_text())
    return [_search(one, document["target"], document["compiler"]) for one in document["workloads"]]


def _search(one: dict[str, Any], target: str, compiler: str) -> StoredSearch:
    key = WorkloadKey(one["op"], one["buffers"], compiler, one["hash"])
    # The program itself is not kept: no other compiler can read what that one wrote.
    workload = Workload(key, tir=f"written by {compiler}", flops=one["flops"])
    model = Model(one["digest"], "", target, compiler, "", (Task(workload, 1),))
    records = tuple(
        Record(
            id=number,
            key=key.on(target),
            candidate=Candidate(json.dumps(record["trace"]), record["module_hash"]),
            measurement=Measurement(
                run_seconds=(record["seconds"],),
                board_class=BOARD_CLASS,
                emulated=True,
                board_state={"unit": "instructions"},
            ),
            verified=record["verified"],
        )
        for number, record in enumerate(one["records"])
    )
    return StoredSearch(model, records)


def put_search(store: Store, search: StoredSearch) -> None:
    """Stores a search's model and records, as they were measured and verified."""
    count = len(search.records)
    of = search.records[0].measurement
    job = store.submit_job(
        store.save_model(search.model),
        of.board_class,
        trials=count,
        more=None,
        emulated=of.emulated,
    )
    (task,) = store.task_states(job)
    store.propose_rounds(job, [RoundProposal(task.id, count, 1.0)])
    claimed = store.claim_round("put_search", job)
    assert claimed is not None
    slots = store.store_candidates(
        claimed.id, claimed.epoch, [record.candidate for record in search.records]
    )
    for slot, record in zip(slots, search.records, strict=True):
        stored = store.store_result(claimed.id, claimed.epoch, slot.number, record.measurement)
        if record.verified:
            store.mark_verified(stored.record_id)
    store.finish_round(claimed.id, claimed.epoch)
    store.finish_job(job, "done")
