"""A coordinator as a user runs it, on a database that a real search and real look-ups filled."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import httpx

from tunebook.cache.access.tokens import Role
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.statistics.lookup_counts import Window
from tunebook.cache.store import Store
from tunebook.service.cli import run

COMMAND = [sys.executable, "-m", "tunebook.service.cli"]
TRIALS = 4
_STARTED = "Tunebook is at "
_PATIENCE = 60


@dataclass
class Coordinator:
    """A running `tunebook serve`, the database behind it, and a token that may read."""

    url: str
    store: Store
    target: str
    keys: tuple[ScheduleKey, ...]
    secret: str
    labels: tuple[str, ...] = ()
    _client: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=_PATIENCE))
    _looked_up: int = 0

    def look_up(self, pipeline: str, target: str, keys: Sequence[ScheduleKey]) -> dict[str, Any]:
        """What a pipeline's build asks, and is answered."""
        workloads = [
            {"op": key.op, "buffers": key.buffers, "hash": key.workload_hash} for key in keys
        ]
        question = {
            "target": target,
            "compiler": keys[0].compiler,
            "workloads": workloads,
            "pipeline": pipeline,
            "on_miss": "report",
        }
        answer = self._client.post(
            f"{self.url}/api/v1/lookups",
            json=question,
            headers={"Authorization": f"Bearer {self.secret}"},
        )
        assert answer.status_code == 200, answer.text
        self._looked_up += len(keys)
        document: dict[str, Any] = answer.json()
        return document

    def look_up_hostile(self, text: str) -> None:
        """Looks up a program whose operators are called so."""
        key = replace(self.keys[0], op=text, workload_hash="1" * 16)
        assert self.look_up("nightly", self.target, [key])["counts"]["misses"] == 1
        self.wait_until_counted()

    def wait_until_counted(self) -> None:
        """Until everything that was looked up is in the database: counts are stored in batches."""
        deadline = time.monotonic() + _PATIENCE
        while self._counted() < self._looked_up:
            assert time.monotonic() < deadline, "never counted"
            time.sleep(0.05)

    def close(self) -> None:
        self._client.close()

    def _counted(self) -> int:
        rates = self.store.statistics.hit_rates(Window.DAY, datetime.now(timezone.utc))
        return sum(rate.series.total.hits + rate.series.total.misses for rate in rates)


def tune(model: Path, target: str, database: Path) -> str:
    """Tunes a model on this machine with a few trials; gives its digest."""
    arguments = ["tune", model, "--target", target, "--db", database, "--trials", TRIALS, "--json"]
    assert run([*map(str, arguments)]) == 0
    return hashlib.sha256(model.read_bytes()).hexdigest()


@contextmanager
def serving(database: Path, home: Path, *, workers: int = 0) -> Iterator[str]:
    """The address of a running `tunebook serve`."""
    command = [*COMMAND, "serve", "--port", "0", "--workers", str(workers), "--db", str(database)]
    environment = {**os.environ, "XDG_DATA_HOME": str(home), "HOME": str(home)}
    log = (home / "log").open("wb")
    server = subprocess.Popen(
        [*command, "--models", str(home / "models")],
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        env=environment,
    )
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line.startswith(_STARTED), (home / "log").read_text()
        yield line.removeprefix(_STARTED).strip()
    finally:
        server.terminate()
        server.wait(timeout=_PATIENCE)
        log.close()


def reading_token(store: Store) -> str:
    """The secret of a token that may read."""
    return store.tokens.create("lab", Role.READ).secret
