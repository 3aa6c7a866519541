"""Models, workloads and measurements for the tests of the store."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from sqlalchemy import create_engine, text

from tunebook.cache.keys import ScheduleKey, WorkloadKey
from tunebook.cache.records import Candidate, ErrorClass, Measurement, Model, Task, Workload
from tunebook.cache.storage.database import parse_url
from tunebook.cache.store import ClaimedRound, RoundProposal, Store

COMPILER = "tvm-0.27.0+llvm-22"
A76 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -mattr=+dotprod,+neon -num-cores=4"
A76_PLAIN = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4"
A53 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53 -mattr=+neon -num-cores=4"
BOARD = "rpi4"


def real_traces() -> dict[str, str]:
    """Traces that MetaSchedule wrote, by target, op and number."""
    path = Path(__file__).parent / "real_traces.json"
    return {name: json.dumps(trace) for name, trace in json.loads(path.read_text()).items()}


TRACE = next(iter(real_traces().values()))
EVIL_TRACE = json.dumps(
    [
        [
            ["GetSBlock", [], ["root", "main"], ["b0"]],
            ["Annotate", ["b0", '"module asm \\".globl evil\\""'], ["pragma_import_llvm"], []],
        ],
        [],
    ]
)


def conv(
    size: int = 56, *, dtype: str = "f32", op: str = "conv2d+add+relu", program: str = ""
) -> Workload:
    """A convolution on a square image; `program` tells apart what op and buffers do not."""
    buffers = f"{dtype}[1,64,{size},{size}] {dtype}[64,64,3,3] -> {dtype}[1,64,{size},{size}]"
    digest = sha256((op + buffers + program).encode()).hexdigest()[:16]
    return Workload(WorkloadKey(op, buffers, COMPILER, digest), f"tir of {digest}", 2.3e8)


def model_of(workloads: Iterable[Workload], *, target: str = A76, choices: str = "") -> Model:
    tasks = tuple(Task(workload, 1) for workload in workloads)
    digest = sha256("".join(task.workload.key.hash for task in tasks).encode()).hexdigest()
    return Model(digest, "input=1,64,56,56", target, COMPILER, choices, tasks)


def success(seconds: float, *, emulated: bool = False, board_seconds: float = 0.0) -> Measurement:
    return Measurement(
        run_seconds=(seconds, seconds, seconds),
        board="board-1",
        board_class=BOARD,
        emulated=emulated,
        board_seconds=board_seconds,
    )


def failure(error: ErrorClass = ErrorClass.RUN, *, emulated: bool = False) -> Measurement:
    return Measurement(error=error, error_text=f"it was {error.value}", emulated=emulated)


def candidates(*names: str, trace: str = TRACE) -> list[Candidate]:
    return [Candidate(trace, name) for name in names]


def start_job(
    store: Store,
    *workloads: Workload,
    target: str = A76,
    trials: int = 100,
    emulated: bool = False,
) -> int:
    model = store.save_model(model_of(workloads or [conv()], target=target))
    return store.submit_job(model, BOARD, trials=trials, more=None, emulated=emulated)


def propose_all(store: Store, job: int, size: int) -> int:
    """A round for every task of a job, the first task's with the highest gain."""
    tasks = store.task_states(job)
    return store.propose_rounds(
        job, [RoundProposal(task.id, size, float(-number)) for number, task in enumerate(tasks)]
    )


def claim_new_round(store: Store, job: int, size: int = 8, worker: str = "worker") -> ClaimedRound:
    """Proposes and claims a round of the job's first task."""
    propose_all(store, job, size)
    claimed = store.claim_round(worker, job)
    assert claimed is not None
    return claimed


def measure(
    store: Store,
    workload: Workload,
    measurements: dict[str, Measurement],
    *,
    target: str = A76,
    trace: str = TRACE,
    emulated: bool = False,
) -> dict[str, int]:
    """Stores results as a worker does, each under its module's hash; gives the records' ids."""
    job = start_job(store, workload, target=target, emulated=emulated)
    claimed = claim_new_round(store, job, size=len(measurements))
    slots = store.store_candidates(
        claimed.id, claimed.epoch, candidates(*measurements, trace=trace)
    )
    ids = {}
    for slot in slots:
        name = slot.candidate.module_hash
        result = store.store_result(claimed.id, claimed.epoch, slot.number, measurements[name])
        ids[name] = result.record_id
    store.finish_round(claimed.id, claimed.epoch)
    store.finish_job(job, "done")
    return ids


def serve(
    store: Store,
    workload: Workload,
    *,
    target: str = A76,
    seconds: float = 1e-3,
    emulated: bool = False,
    trace: str = TRACE,
) -> ScheduleKey:
    """Makes the workload have a verified record."""
    measured = success(seconds, emulated=emulated)
    name = f"module-{seconds}-{emulated}"
    ids = measure(store, workload, {name: measured}, target=target, trace=trace, emulated=emulated)
    store.mark_verified(ids[name])
    return workload.key.on(target)


def run_sql(url: str, statement: str, **parameters: object) -> None:
    """What somebody does to the database behind the store's back."""
    engine = create_engine(parse_url(url))
    with engine.begin() as connection:
        connection.execute(text(statement), parameters)
    engine.dispose()
