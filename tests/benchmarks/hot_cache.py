"""What it buys that replicas share answers to look-ups through Redis, on PostgreSQL.

Starts PostgreSQL and Redis as users without rights, a database with 10,000 records (or more), and
three coordinators behind real HTTP: one asks the database (`alone`), one finds in Redis (`shared`)
what the third (`first`) has answered before. Each is asked for models of 60 tasks, each of which
it is asked for once: it remembers nothing. The seal of each answer is checked, and the revision is
asked of the database by all of them. The models are asked for in blocks, of each by all three, in
turn; the machine does nothing else meanwhile.

Per look-up: the latency, and the CPU time of the coordinator, of the database's server and of
Redis together, as the median over the blocks with its quartiles. `first` tells what it costs to
put answers there. The last line is `RESULT {json}`: `cpu_ratio` and `latency_ratio` are those of
`shared` to `alone`.

    python tests/benchmarks/hot_cache.py [--records N] [--blocks N] [--folder DIR]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from lookup import RECORDS_PER_WORKLOAD, PostgresqlDatabases

from service import TASKS, Connection, Server, body_of
from tunebook.cache.access.tokens import Role
from tunebook.cache.live.live import Live
from tunebook.cache.store import Store
from tunebook.service.api.settings import Limits, Settings
from tunebook.service.app import create_app

sys.path.insert(0, str(Path(__file__).parents[1] / "servers"))
from redis_server import running_redis

PER_BLOCK = 20
# Asked before anything counts: connections are opened then, and statements compiled.
WARMING = 2
SECRET = b"a secret of the benchmark's own"
NAMES = ("first", "alone", "shared")


@dataclass
class Asked:
    """A coordinator, and what it cost per look-up in each block, in milliseconds."""

    server: Server
    latency: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def told(self) -> dict[str, Any]:
        """Medians, with quartiles."""
        return {
            name: [round(value, 2) for value in statistics.quantiles(values)]
            for name, values in (("latency_ms", self.latency), ("cpu_ms", self.cpu))
        }


def serve(database: str, models: str, redis: str) -> None:
    """One coordinator; prints its port, and runs until it is ended."""
    from service_processes import serve as serve_app

    limits = Limits(token_rate=1e9, token_burst=10**9)
    with (
        Store.open(database) as store,
        Live.open(redis or None, store.place(), SECRET) as live,
    ):
        serve_app(create_app(Settings(models=models, limits=limits), store, live=live))


@contextmanager
def coordinator(name: str, *arguments: str) -> Iterator[Server]:
    command = [sys.executable, __file__, "--serve", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())
        yield Server(name, port, psutil.Process(process.pid), [], 0, b"")
    finally:
        process.terminate()
        process.wait()


def cpu_seconds(process: psutil.Process) -> float:
    """What a process and those that it started have used so far."""
    times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def ask_block(asked: Asked, bodies: list[bytes], others: list[psutil.Process]) -> None:
    everyone = [asked.server.process, *others]
    before = sum(map(cpu_seconds, everyone))
    connection = Connection(asked.server)
    latency = [connection.ask(body) for body in bodies]
    connection.close()
    # What is done once the answer was sent counts too.
    time.sleep(0.05)
    used = sum(map(cpu_seconds, everyone)) - before
    asked.latency.append(statistics.median(latency) * 1e3)
    asked.cpu.append(used / len(bodies) * 1e3)


def measure(folder: Path, records: int, blocks: int) -> dict[str, Any]:
    with ExitStack() as ends:
        databases = PostgresqlDatabases(ends)
        url = databases.fill(records)
        redis = ends.enter_context(running_redis())
        with Store.open(url) as store:
            secret = store.tokens.create("benchmark", Role.READ).secret
        head = (
            "POST /api/v1/lookups HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {secret}\r\n"
        )
        asked = {}
        for name in NAMES:
            place = "" if name == "alone" else redis.url
            server = ends.enter_context(coordinator(name, url, str(folder / name), place))
            server.headers = head.encode()
            asked[name] = Asked(server)
        children = psutil.Process().children()
        others = [one for one in children if one.name().startswith(("postgres", "redis", "valkey"))]
        chance = random.Random(1)
        workloads = records // RECORDS_PER_WORKLOAD
        for block in range(blocks + WARMING):
            bodies = [body_of(chance.sample(range(workloads), TASKS)) for _ in range(PER_BLOCK)]
            for one in asked.values():
                ask_block(one, bodies, others)
                if block < WARMING:
                    one.latency.clear()
                    one.cpu.clear()
        found = int(redis.ask("HLEN", *redis.ask("KEYS", "*:answers"))) - 2
    assert found == (blocks + WARMING) * PER_BLOCK, "not every answer was shared"
    return {
        "records": records,
        "look_ups": blocks * PER_BLOCK,
        **{name: one.told() for name, one in asked.items()},
        "cpu_ratio": ratio(asked["shared"].cpu, asked["alone"].cpu),
        "latency_ratio": ratio(asked["shared"].latency, asked["alone"].latency),
        "cpu_ratio_of_putting": ratio(asked["first"].cpu, asked["alone"].cpu),
    }


def ratio(own: list[float], other: list[float]) -> float:
    return round(statistics.median(own) / statistics.median(other), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--blocks", type=int, default=15)
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(*arguments.serve)
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        result = measure(Path(folder), arguments.records, arguments.blocks)
    for name in NAMES:
        print(name, result[name])
    print(f"RESULT {json.dumps(result)}")


if __name__ == "__main__":
    main()
