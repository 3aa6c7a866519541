"""The real `tunebook serve` and `worker` with a Redis that is there, hangs, or refuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import psutil
import pytest
from redis_server import RedisServer, running_redis

from tunebook.cache.errors import ExitCode
from tunebook.service.api.processes.embedded_worker import EmbeddedWorkers
from tunebook.service.cli import run

Eventually = Callable[..., None]
PASSWORD = "s3cr3t"
PATIENCE = 60


@contextmanager
def served(home: Path, redis: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A coordinator without workers: where it is, and its process."""
    command = (sys.executable, "-m", "tunebook.service.cli", "serve", "--port", "0")
    environment = {"HOME": str(home), "XDG_DATA_HOME": str(home), "TUNEBOOK_REDIS_URL": redis}
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--workers", "0", "--db", str(home / "tunebook.db")],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("Tunebook is at "), (home / "log").read_text()
        yield line.split()[-1], process
    finally:
        process.kill()
        process.communicate()


def redis_part(url: str) -> dict[str, object]:
    answer = httpx.get(f"{url}/readyz", timeout=PATIENCE)
    assert answer.status_code == 200
    (part,) = (part for part in answer.json()["parts"] if part["name"] == "redis")
    return dict(part)


@pytest.fixture
def guarded_redis(redis_server: RedisServer) -> Iterator[RedisServer]:
    """One that wants a password."""
    with running_redis(PASSWORD) as server:
        yield server


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_what_is_no_redis_url_ends_the_start_with_one_line(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"http://:{PASSWORD}@localhost"
    words = [command, "--redis", url, "--db", str(tmp_path / "book.db")]
    words += ["--port", "0", "--workers", "0"] if command == "serve" else ["--boards", "local"]
    with ExitStack() as ends:
        # Both catch what tells them to stop.
        for number in (signal.SIGTERM, signal.SIGINT):
            ends.callback(signal.signal, number, signal.getsignal(number))
        assert run(words) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert "is no Redis URL; give redis://" in told
    assert PASSWORD not in told


def warnings(log: Path) -> list[str]:
    """What was warned of; a last line that is not whole yet is left out."""
    lines = [json.loads(line) for line in log.read_text().rpartition("\n")[0].splitlines()]
    return [line["message"] for line in lines if line["level"] == "warning"]


@pytest.mark.parametrize(
    ("redis_is", "said"), [("hanging", "does not answer"), ("refusing", "refuses the user")]
)
def test_it_starts_answers_and_stops_whatever_is_with_redis(
    tmp_path: Path, guarded_redis: RedisServer, eventually: Eventually, redis_is: str, said: str
) -> None:
    given = guarded_redis.url
    if redis_is == "hanging":
        guarded_redis.pause()
    else:
        given = given.replace(PASSWORD, PASSWORD + "-of-before")
    log = tmp_path / "log"
    with served(tmp_path, given) as (url, process):
        assert redis_part(url)["degraded"] is True
        eventually(lambda: any(said in one for one in warnings(log)), "it says so")
        assert httpx.get(f"{url}/healthz", timeout=PATIENCE).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE) == ExitCode.OK
    # One that refuses may be too slow to do so now and then, which is another fault.
    told = warnings(log)
    assert len(told) == len(set(told))
    assert PASSWORD not in log.read_text()


def test_it_is_there_once_redis_is(
    tmp_path: Path, guarded_redis: RedisServer, eventually: Eventually
) -> None:
    with served(tmp_path, guarded_redis.url) as (url, process):
        eventually(lambda: redis_part(url)["degraded"] is False, "it is there")
        guarded_redis.kill()
        eventually(lambda: redis_part(url)["degraded"] is True, "it is away")
        guarded_redis.start()
        eventually(lambda: redis_part(url)["degraded"] is False, "it is there again")
        assert PASSWORD not in " ".join(psutil.Process(process.pid).cmdline())
    assert PASSWORD not in (tmp_path / "log").read_text()


@pytest.mark.slow
def test_workers_are_given_it_without_showing_it(tmp_path: Path, eventually: Eventually) -> None:
    url = f"redis://:{PASSWORD}@127.0.0.1:1"
    database = str(tmp_path / "tunebook.db")
    # Boards of its own: it lives until it is stopped.
    workers = EmbeddedWorkers(1, db=database, redis=url, models=str(tmp_path), boards=["local"])
    workers.start()
    try:
        eventually(lambda: bool(workers.process_ids), "it runs")
        worker = psutil.Process(workers.process_ids[0])
        eventually(lambda: "tunebook.service.cli" in worker.cmdline(), "it is the worker")
        assert worker.environ()["TUNEBOOK_REDIS_URL"] == url
        assert PASSWORD not in " ".join(worker.cmdline())
    finally:
        workers.stop()
