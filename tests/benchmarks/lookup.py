"""How long 100 look-ups take among 1,000,000 records in SQLite, against 10,000.

A record is as large as a real one (trace and error text; features as 1 KiB), a hundred belong to
each workload, one of them is verified. Every run asks for 100 other keys, picked at random, so
nothing but the file system's cache is warm; both databases are asked in turn. Prints the figures
of each run, and last `RESULT {json}`. Needs some 5 GB in the folder given (default: the system's
temporary one), and leaves nothing there.

    python tests/benchmarks/lookup.py [--folder DIR] [--runs N]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sqlite3
import statistics
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

from tunebook.cache.keys import ScheduleKey, WorkloadKey
from tunebook.cache.storage.database import upgrade
from tunebook.cache.store import Store

LARGE, SMALL = 1_000_000, 10_000
RECORDS_PER_WORKLOAD = 100
KEYS = 100
COMPILER = "tvm-0.27.0+llvm-22"
TARGET = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -mattr=+dotprod,+neon -num-cores=4"
OPS = ("conv2d+add+relu", "dense+add", "matmul", "depthwise_conv2d+add", "softmax", "concatenate")
TRACES = Path(__file__).parent.parent / "cache" / "real_traces.json"


def workload_key(number: int) -> WorkloadKey:
    extents = f"[1,{8 + number % 509},{1 + number // 509}]"
    digest = hashlib.sha256(str(number).encode()).hexdigest()[:16]
    return WorkloadKey(OPS[number % len(OPS)], f"f32{extents} -> f32{extents}", COMPILER, digest)


def fill(path: Path, records: int) -> None:
    """Bulk-loads a database: waiting for a million transactions would measure something else."""
    upgrade(str(path))
    workloads = records // RECORDS_PER_WORKLOAD
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("INSERT INTO targets (id, text) VALUES (1, ?)", (TARGET,))
        connection.executemany(
            "INSERT INTO workloads (id, op, buffers, compiler, hash, dtypes, shapes, elements,"
            " flops, tir) VALUES (?, ?, ?, ?, ?, 'f32 ->f32', ?, ?, 1e8, ?)",
            _workload_rows(workloads),
        )
        connection.executemany(
            "INSERT INTO records (id, workload_id, target_id, module_hash, emulated, verified,"
            " seconds, error_text, source, board, board_class, board_seconds, board_state,"
            " run_seconds, created_at, feature_columns, trace, features) VALUES"
            " (?, ?, 1, ?, 0, ?, ?, '', 'search', 'board-1', 'rpi4', 0.1, '{}', ?,"
            " '2026-01-01 00:00:00', 164, ?, ?)",
            _record_rows(records),
        )
        connection.executemany(
            "INSERT INTO schedules (workload_id, target_id, emulated, record_id, seconds)"
            " VALUES (?, 1, 0, ?, 1e-3)",
            ((1 + number, 1 + number * RECORDS_PER_WORKLOAD) for number in range(workloads)),
        )
        connection.execute("ANALYZE")


def _workload_rows(workloads: int) -> Iterator[tuple[object, ...]]:
    tir = zlib.compress(b"a program" * 1000)
    for number in range(workloads):
        key = workload_key(number)
        shape = key.buffers.split(" ")[0].removeprefix("f32")
        yield (
            1 + number,
            key.op,
            key.buffers,
            key.compiler,
            key.hash,
            f"{shape} ->{shape}",
            float(number % 20),
            tir,
        )


def _record_rows(records: int) -> Iterator[tuple[object, ...]]:
    traces = [json.dumps(trace) for trace in json.loads(TRACES.read_text()).values()]
    features = b"\0" * 1024
    for number in range(records):
        first = number % RECORDS_PER_WORKLOAD == 0
        seconds = 1e-3 if first else 1e-3 + number % 97 * 1e-5
        yield (
            1 + number,
            1 + number // RECORDS_PER_WORKLOAD,
            f"{number:016x}",
            first,
            seconds,
            json.dumps([seconds] * 3),
            traces[number % len(traces)],
            features,
        )


def look_up_once(store: Store, records: int, chance: random.Random) -> float:
    """The milliseconds that one look-up of KEYS random keys takes; all must hit."""
    workloads = records // RECORDS_PER_WORKLOAD
    numbers = chance.sample(range(workloads), KEYS)
    keys: list[ScheduleKey] = [workload_key(number).on(TARGET) for number in numbers]
    start = time.perf_counter()
    answer = store.lookup(keys)
    elapsed = time.perf_counter() - start
    assert len(answer.hits) == KEYS and not answer.misses
    return elapsed * 1e3


def measure(folder: Path, runs: int) -> dict[int, list[float]]:
    stores = {}
    for records in (SMALL, LARGE):
        start = time.perf_counter()
        path = folder / f"{records}.db"
        fill(path, records)
        size = path.stat().st_size / 1e9
        print(
            f"{records} records: {size:.2f} GB in {time.perf_counter() - start:.0f} s", flush=True
        )
        stores[records] = Store.open(str(path), read_only=True)
    chance = random.Random(1)
    times: dict[int, list[float]] = {records: [] for records in stores}
    for run in range(runs + 1):
        for records, store in stores.items():
            elapsed = look_up_once(store, records, chance)
            # The first run opens connections and compiles statements.
            if run:
                times[records].append(elapsed)
                print(f"run {run}: {KEYS} keys among {records} records: {elapsed:.2f} ms")
    for store in stores.values():
        store.close()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--runs", type=int, default=40)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        times = measure(Path(folder), arguments.runs)
    medians = {records: statistics.median(values) for records, values in times.items()}
    quartiles = {records: statistics.quantiles(values) for records, values in times.items()}
    result = {
        f"median_ms_{LARGE}": round(medians[LARGE], 3),
        f"median_ms_{SMALL}": round(medians[SMALL], 3),
        "ratio": round(medians[LARGE] / medians[SMALL], 3),
        "spread": {
            str(records): [round(one[0], 3), round(one[2], 3)] for records, one in quartiles.items()
        },
    }
    print(f"RESULT {json.dumps(result)}")


if __name__ == "__main__":
    main()
