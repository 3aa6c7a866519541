"""Counts of look-ups outlive the coordinator: all of them a stop, the stored ones a kill."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from lookup_samples import LOOKUPS, question, serve, workload

from tunebook.cache.access.tokens import Role
from tunebook.cache.statistics.lookup_counts import Window
from tunebook.cache.storage.moments import now
from tunebook.cache.store import Store

Eventually = Callable[..., None]
_ASKED = 50
_PATIENCE = 60


@pytest.fixture
def coordinator(
    database: str, store: Store, tmp_path: Path
) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """A coordinator in a process of its own, and a client of it."""
    serve(store, workload(56))
    secret = store.tokens.create("build", Role.READ).secret
    # Its data folder is not this user's.
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "tunebook.service.cli", "serve", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--workers", "0", "--db", database],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    try:
        assert process.stdout is not None
        told = re.search(r"http://\S+", process.stdout.readline())
        assert told is not None
        headers = {"Authorization": f"Bearer {secret}"}
        with httpx.Client(
            base_url=told[0], headers=headers, trust_env=False, timeout=_PATIENCE
        ) as client:
            yield process, client
    finally:
        process.kill()
        process.wait()


def ask(client: httpx.Client, times: int) -> None:
    for _ in range(times):
        assert client.post(LOOKUPS, json=question(workload(56))).status_code == 200


def counted(store: Store) -> int:
    rates = store.statistics.hit_rates(Window.DAY, now())
    return sum(rate.series.total.hits for rate in rates)


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_stop_in_the_middle_of_a_batch_loses_nothing(
    coordinator: tuple[subprocess.Popen[str], httpx.Client], store: Store, stop: signal.Signals
) -> None:
    process, client = coordinator
    ask(client, _ASKED)
    process.send_signal(stop)
    process.wait(timeout=_PATIENCE)
    assert counted(store) == _ASKED


def test_a_kill_loses_only_what_was_counted_since_the_last_batch(
    coordinator: tuple[subprocess.Popen[str], httpx.Client], store: Store, eventually: Eventually
) -> None:
    process, client = coordinator
    ask(client, _ASKED)
    eventually(lambda: counted(store) == _ASKED, "the batch is stored")
    ask(client, 1)
    process.kill()
    process.wait()
    assert counted(store) in (_ASKED, _ASKED + 1)
