"""Schedules to look up, and the questions that ask for them."""

from __future__ import annotations

import dataclasses
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from tunebook.cache.keys import ScheduleKey, WorkloadKey
from tunebook.cache.records import Candidate, Measurement, Model, Task, Workload
from tunebook.cache.store import Store
from tunebook.cache.work import RoundProposal

COMPILER = "tvm-0.27.0+llvm-22"
A76 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4"
A53 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53 -num-cores=4"
LOOKUPS = "/api/v1/lookups"
_TRACES = Path(__file__).parents[2] / "cache" / "real_traces.json"
TRACE = json.dumps(next(iter(json.loads(_TRACES.read_text()).values())))


def workload(size: int) -> Workload:
    """A convolution on a square image of this size."""
    buffers = f"f32[1,64,{size},{size}] f32[64,64,3,3] -> f32[1,64,{size},{size}]"
    digest = sha256(buffers.encode()).hexdigest()[:16]
    return Workload(WorkloadKey("conv2d+add+relu", buffers, COMPILER, digest), "tir", 1e8)


def model(*sizes: int, target: str = A76) -> Model:
    """A model of one task for each size."""
    tasks = tuple(Task(workload(size), 1) for size in sizes)
    digest = sha256(repr(sizes).encode()).hexdigest()
    return Model(digest, f"x=1,64,{sizes[0]},{sizes[0]}", target, COMPILER, "", tasks)


def measure(store: Store, one: Workload, seconds: float, *, target: str = A76) -> int:
    """Stores a record that nobody has verified; gives its id."""
    of_one = dataclasses.replace(model(1, target=target), tasks=(Task(one, 1),))
    job = store.submit_job(store.save_model(of_one), "rpi4", trials=100, more=None)
    store.propose_rounds(job, [RoundProposal(store.task_states(job)[0].id, 1, 1.0)])
    claimed = store.claim_round("worker", job)
    assert claimed is not None
    candidate = Candidate(TRACE, f"module-{seconds}")
    (slot,) = store.store_candidates(claimed.id, claimed.epoch, [candidate])
    measured = Measurement(run_seconds=(seconds,) * 3, board="b", board_class="rpi4")
    result = store.store_result(claimed.id, claimed.epoch, slot.number, measured)
    store.finish_round(claimed.id, claimed.epoch)
    store.finish_job(job, "done")
    return result.record_id


def serve(store: Store, one: Workload, seconds: float = 1e-3, *, target: str = A76) -> int:
    """Stores a verified record; gives its id."""
    record = measure(store, one, seconds, target=target)
    store.mark_verified(record)
    return record


def question(*workloads: Workload, target: Any = A76, **more: Any) -> dict[str, Any]:
    """The body that asks for workloads."""
    asked = [
        {"op": one.key.op, "buffers": one.key.buffers, "hash": one.key.hash} for one in workloads
    ]
    return {"target": target, "compiler": COMPILER, "workloads": asked, **more}


def key_of(one: Workload, target: str = A76) -> ScheduleKey:
    return one.key.on(target)
