"""How fast the coordinator answers look-ups, against a bare FastAPI endpoint.

The bare endpoint parses and validates the same Pydantic models and serialises a constant answer of
the same size; it looks nothing up, counts nothing and knows no tokens. Coordinators on SQLite files
with 10,000 and 1,000,000 records stand beside it, each in a process of its own, and all are asked
in turn, in slices of some seconds, over connections that stay open. A model has 60 tasks, picked at
random; pipelines ask for one of 200 models again and again. Two further figures are of models that
nobody asked for before (`cold`): each answer is then read out of the database.

Memory is that of a coordinator that keeps 64 MiB of answers, over 100,000 further look-ups of which
each twentieth is for a new model, once these answers are full.

Prints the figures of each slice, and last `RESULT {json}`: `rate_ratio` and `p99_ratio` are of the
worse of the two databases, a rate is the median over the slices. Needs some 5 GB in the folder
given (default: the system's temporary one), and leaves nothing there.

    python tests/benchmarks/service.py [--folder DIR] [--slices N] [--records N ...]
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from lookup import COMPILER, RECORDS_PER_WORKLOAD, TARGET, fill, workload_key

from tunebook.cache.access.tokens import Role
from tunebook.cache.remote.lookup_documents import lookup_document
from tunebook.cache.store import Store

TASKS = 60
MODELS = 200
CONNECTIONS = 4
SLICE_SECONDS = 3.0
COLD_REQUESTS = 150
MEMORY_REQUESTS = 100_000
NEW_MODELS = 20
SERVERS = Path(__file__).with_name("service_processes.py")


@dataclass
class Server:
    """A server that is asked; `seconds` are the latencies of all slices, `rates` one a slice."""

    name: str
    port: int
    process: psutil.Process
    bodies: list[bytes]
    workloads: int
    headers: bytes
    rates: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def new_body(self, chance: random.Random) -> bytes:
        return body_of(chance.sample(range(self.workloads), TASKS))

    @property
    def p99(self) -> float:
        return statistics.quantiles(self.seconds, n=100)[98]


def body_of(numbers: Sequence[int]) -> bytes:
    """The question for the workloads with these numbers."""
    keys = map(workload_key, numbers)
    asked = [{"op": key.op, "buffers": key.buffers, "hash": key.hash} for key in keys]
    question = {"target": TARGET, "compiler": COMPILER, "workloads": asked, "pipeline": "bench"}
    return json.dumps(question).encode()


class Connection:
    """A connection that stays open; as little as can be, so that the server is what is measured."""

    def __init__(self, server: Server) -> None:
        self._headers = server.headers
        self._socket = socket.create_connection(("127.0.0.1", server.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, body: bytes) -> float:
        """Seconds until the whole answer was there, which must be all hits."""
        request = self._headers + b"Content-Length: %d\r\n\r\n" % len(body) + body
        start = time.perf_counter()
        self._socket.sendall(request)
        received = self._socket.recv(1 << 20)
        while b"\r\n\r\n" not in received:
            received += self._more()
        head, _, rest = received.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        size = len(rest)
        while size < length:
            size += len(self._more())
        elapsed = time.perf_counter() - start
        assert head.startswith(b"HTTP/1.1 200"), received[:400]
        return elapsed

    def close(self) -> None:
        self._socket.close()

    def _more(self) -> bytes:
        received = self._socket.recv(1 << 20)
        assert received, "the server hung up"
        return received


def ask_for(server: Server, seconds: float, seed: int) -> tuple[float, list[float]]:
    """Requests a second over several connections at once, and all latencies."""
    found: list[list[float]] = [[] for _ in range(CONNECTIONS)]
    end = time.perf_counter() + seconds

    def run(number: int) -> None:
        chance = random.Random(seed * CONNECTIONS + number)
        connection = Connection(server)
        while time.perf_counter() < end:
            found[number].append(connection.ask(chance.choice(server.bodies)))
        connection.close()

    start = time.perf_counter()
    threads = [threading.Thread(target=run, args=(number,)) for number in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    latencies = [one for each in found for one in each]
    return len(latencies) / (time.perf_counter() - start), latencies


def ask_cold(server: Server, seed: int) -> float:
    """Requests a second over one connection, each for a model that nobody asked for before."""
    chance = random.Random(seed)
    connection = Connection(server)
    bodies = [server.new_body(chance) for _ in range(COLD_REQUESTS)]
    seconds = sum(map(connection.ask, bodies))
    connection.close()
    return COLD_REQUESTS / seconds


def grow(server: Server, requests: int, seed: int) -> float:
    """Mebibytes of memory by which a server grows over so many requests, once it is full."""
    chance = random.Random(seed)
    connection = Connection(server)
    before = 0
    for number in range(-requests // 2, requests):
        if number == 0:
            before = server.process.memory_info().rss
        new = number % NEW_MODELS == 0
        connection.ask(server.new_body(chance) if new else chance.choice(server.bodies))
    connection.close()
    return float(server.process.memory_info().rss - before) / 2**20


@contextmanager
def running(*arguments: str) -> Iterator[tuple[int, psutil.Process]]:
    command = [sys.executable, str(SERVERS), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline()), psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


@contextmanager
def servers(folder: Path, sizes: Sequence[int]) -> Iterator[tuple[Server, list[Server]]]:
    """The bare endpoint, and a coordinator for each database."""
    head = b"POST /api/v1/lookups HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with ExitStack() as ends:
        coordinators = []
        for records in sizes:
            start = time.perf_counter()
            path = folder / f"{records}.db"
            fill(path, records)
            with sqlite3.connect(path) as connection:
                # Nobody runs ANALYZE on a database that is in use.
                connection.execute("DELETE FROM sqlite_stat1")
            print(f"{records} records in {time.perf_counter() - start:.0f} s", flush=True)
            workloads = records // RECORDS_PER_WORKLOAD
            chance = random.Random(records)
            bodies = [body_of(chance.sample(range(workloads), TASKS)) for _ in range(MODELS)]
            with Store.open(str(path)) as store:
                secret = store.tokens.create("benchmark", Role.READ).secret
                keys = [workload_key(number).on(TARGET) for number in range(TASKS)]
                constant = lookup_document(store.lookup(keys)).model_dump_json()
            port, process = ends.enter_context(
                running("coordinator", str(path), str(folder / f"models-{records}"))
            )
            headers = head + f"Authorization: Bearer {secret}\r\n".encode()
            name = f"{records} records"
            coordinators.append(Server(name, port, process, bodies, workloads, headers))
        answer = folder / "answer.json"
        answer.write_text(constant)
        port, process = ends.enter_context(running("bare", str(answer)))
        yield Server("bare", port, process, bodies, workloads, head), coordinators


def measure(folder: Path, sizes: Sequence[int], slices: int, requests: int) -> dict[str, Any]:
    with servers(folder, sizes) as (bare, coordinators):
        everyone = [bare, *coordinators]
        for number in range(-1, slices):
            for server in everyone:
                rate, latencies = ask_for(server, SLICE_SECONDS, number)
                # The first slice reads every model once.
                if number >= 0:
                    server.rates.append(rate)
                    server.seconds += latencies
                    p99 = statistics.quantiles(latencies, n=100)[98] * 1e3
                    print(f"slice {number}: {server.name}: {rate:.0f}/s, p99 {p99:.2f} ms")
        cold = {server.name: [ask_cold(server, turn) for turn in range(3)] for server in everyone}
        growth = grow(coordinators[-1], requests, 1)
    ratios = {
        server.name: statistics.median(
            own / other for own, other in zip(server.rates, bare.rates, strict=True)
        )
        for server in coordinators
    }
    cold_bare = statistics.median(cold[bare.name])
    return {
        "rate_ratio": round(min(ratios.values()), 2),
        "p99_ratio": round(max(server.p99 for server in coordinators) / bare.p99, 2),
        "rate": {server.name: round(statistics.median(server.rates)) for server in everyone},
        "p99_ms": {server.name: round(server.p99 * 1e3, 2) for server in everyone},
        "cold_rate_ratio": {
            server.name: round(statistics.median(cold[server.name]) / cold_bare, 2)
            for server in coordinators
        },
        "memory_growth_mib": round(growth, 1),
        "memory_requests": requests,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--slices", type=int, default=10)
    parser.add_argument("--records", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--memory-requests", type=int, default=MEMORY_REQUESTS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        result = measure(
            Path(folder), arguments.records, arguments.slices, arguments.memory_requests
        )
    print(f"RESULT {json.dumps(result)}")


if __name__ == "__main__":
    main()
