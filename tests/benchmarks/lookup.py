"""How long 100 look-ups take among 1,000,000 records, against 10,000, in SQLite or PostgreSQL.

A record is as large as a real one (trace and error text; features as 1 KiB), a hundred belong to
each workload, one of them is verified. Every run asks for 100 other keys, picked at random, so
nothing but the file system's cache is warm; both databases are asked in turn. Prints the figures
of each run, and last `RESULT {json}`. Needs some 5 GB in the folder given (default: the system's
temporary one), and leaves nothing there. With `--postgresql` a server is started there, as a user
without rights where this one is root, with the settings that it is installed with but for fsync,
which only filling waits for.

    python tests/benchmarks/lookup.py [--postgresql] [--folder DIR] [--runs N] [--large N]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sqlite3
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
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
TESTS = Path(__file__).parent.parent
TRACES = TESTS / "cache" / "real_traces.json"

COLUMNS = {
    "targets": ("id", "text", "features"),
    "workloads": (
        *("id", "op", "buffers", "compiler", "hash", "dtypes", "shapes", "elements", "flops"),
        *("tir", "structure", "anchor", "attributes", "constants"),
    ),
    "records": (
        *("id", "workload_id", "target_id", "module_hash", "emulated", "verified", "seconds"),
        *("error_text", "source", "board", "board_class", "board_seconds", "board_state"),
        *("run_seconds", "created_at", "feature_columns", "trace", "features"),
    ),
    "schedules": ("workload_id", "target_id", "emulated", "record_id", "seconds"),
}
Rows = Iterator[tuple[object, ...]]


def workload_key(number: int) -> WorkloadKey:
    extents = f"[1,{8 + number % 509},{1 + number // 509}]"
    digest = hashlib.sha256(str(number).encode()).hexdigest()[:16]
    return WorkloadKey(OPS[number % len(OPS)], f"f32{extents} -> f32{extents}", COMPILER, digest)


def rows_of(records: int) -> dict[str, Rows]:
    """All rows of a database with so many records, by table."""
    workloads = records // RECORDS_PER_WORKLOAD
    schedules = (
        (1 + number, 1, False, 1 + number * RECORDS_PER_WORKLOAD, 1e-3)
        for number in range(workloads)
    )
    return {
        "targets": iter([(1, TARGET, "")]),
        "workloads": _workload_rows(workloads),
        "records": _record_rows(records),
        "schedules": schedules,
    }


def _workload_rows(workloads: int) -> Rows:
    tir = zlib.compress(b"a program" * 1000)
    for number in range(workloads):
        key = workload_key(number)
        shape = key.buffers.split(" ")[0].removeprefix("f32")
        yield (
            *(1 + number, key.op, key.buffers, key.compiler, key.hash),
            *("f32 ->f32", f"{shape} ->{shape}", float(number % 20), 1e8, tir, "", "", "", ""),
        )


def _record_rows(records: int) -> Rows:
    traces = [json.dumps(trace) for trace in json.loads(TRACES.read_text()).values()]
    features = b"\0" * 1024
    for number in range(records):
        first = number % RECORDS_PER_WORKLOAD == 0
        seconds = 1e-3 if first else 1e-3 + number % 97 * 1e-5
        yield (
            *(1 + number, 1 + number // RECORDS_PER_WORKLOAD, 1, f"{number:016x}", False, first),
            *(seconds, "", "search", "board-1", "rpi4", 0.1, "{}", json.dumps([seconds] * 3)),
            *("2026-01-01 00:00:00+00", 164, traces[number % len(traces)], features),
        )


def fill(path: Path, records: int) -> None:
    """Bulk-loads a file: waiting for a million transactions would measure something else."""
    upgrade(str(path))
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        for table, rows in rows_of(records).items():
            columns = COLUMNS[table]
            marks = ", ".join("?" * len(columns))
            connection.executemany(
                f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows
            )
        connection.execute("ANALYZE")


class SQLiteFiles:
    """Databases as files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def fill(self, records: int) -> str:
        """A database with so many records; gives its path."""
        path = self._folder / f"{records}.db"
        fill(path, records)
        return str(path)

    def size(self, url: str) -> int:
        """How many bytes a database takes."""
        return Path(url).stat().st_size


class PostgresqlDatabases:
    """Databases of a server that runs until `ends` do."""

    def __init__(self, ends: ExitStack) -> None:
        sys.path.insert(0, str(TESTS / "servers"))
        from postgresql_server import running_postgresql

        self._server = ends.enter_context(running_postgresql())

    def fill(self, records: int) -> str:
        """A database with so many records; gives its URL."""
        import psycopg

        url = self._server.empty_database()
        upgrade(url)
        with psycopg.connect(url) as connection:
            for table, rows in rows_of(records).items():
                statement = f"COPY {table} ({', '.join(COLUMNS[table])}) FROM STDIN"
                with connection.cursor().copy(statement) as copy:
                    for row in rows:
                        copy.write_row(row)
            connection.commit()
            # As it is soon after by itself.
            connection.autocommit = True
            connection.execute("VACUUM ANALYZE")
            connection.execute("CHECKPOINT")
        return url

    def size(self, url: str) -> int:
        """How many bytes a database takes."""
        import psycopg

        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        assert row is not None
        return int(row[0])


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


def measure(
    fill: Callable[[int], str], size: Callable[[str], int], counts: Sequence[int], runs: int
) -> dict[int, list[float]]:
    """The milliseconds of each run, by the number of records."""
    stores = {}
    for records in counts:
        start = time.perf_counter()
        url = fill(records)
        took = time.perf_counter() - start
        print(f"{records} records: {size(url) / 1e9:.2f} GB in {took:.0f} s", flush=True)
        stores[records] = Store.open(url, read_only=True)
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
    parser.add_argument("--postgresql", action="store_true")
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--large", type=int, default=LARGE)
    arguments = parser.parse_args()
    # Where the server makes its own folder, too.
    tempfile.tempdir = None if arguments.folder is None else str(arguments.folder)
    large = arguments.large
    with ExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory()))
        made = PostgresqlDatabases(ends) if arguments.postgresql else SQLiteFiles(folder)
        times = measure(made.fill, made.size, (SMALL, large), arguments.runs)
    medians = {records: statistics.median(values) for records, values in times.items()}
    quartiles = {records: statistics.quantiles(values) for records, values in times.items()}
    result = {
        "database": "postgresql" if arguments.postgresql else "sqlite",
        f"median_ms_{large}": round(medians[large], 3),
        f"median_ms_{SMALL}": round(medians[SMALL], 3),
        "ratio": round(medians[large] / medians[SMALL], 3),
        "spread": {
            str(records): [round(one[0], 3), round(one[2], 3)] for records, one in quartiles.items()
        },
    }
    print(f"RESULT {json.dumps(result)}")


if __name__ == "__main__":
    main()
