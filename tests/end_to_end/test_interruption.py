"""A tuning run that is killed, and what the same command does afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import create_engine, text

from tunebook.cache.errors import ExitCode

pytestmark = pytest.mark.slow

SHAPE = "input_2=1,24,24,3"
TRIALS = 40
# What onnxruntime leaves in the temporary folder when it is imported.
ONNXRUNTIMES = {".ses"}
# The command line, but it stands still before its 31st trial is stored: however late it is killed,
# it has not come to its end.
HELD_UP = """
import threading
from tunebook.cache.store import Store
from tunebook.service.cli import main

store_result, stored = Store.store_result, []

def hold_up(self, *arguments):
    stored.append(arguments)
    if len(stored) > 30:
        threading.Event().wait()
    return store_result(self, *arguments)

Store.store_result = hold_up
main()
"""
Eventually = Callable[..., None]


def test_kill_9_loses_nothing_repeats_nothing_and_keeps_the_budget(
    tunebook: Any, rnet: Path, tmp_path: Path, eventually: Eventually
) -> None:
    database = tmp_path / "tunebook.db"
    arguments = [
        *("tune", str(rnet), "--target", "host", "--shape", SHAPE),
        *("--trials", str(TRIALS), "--db", str(database), "--json"),
    ]
    killed = subprocess.Popen(
        [sys.executable, "-c", HELD_UP, *arguments],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        eventually(lambda: len(_records(database)) >= 14, "records are stored", 300)
    finally:
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
    before = _records(database)
    open_slots = _open_slots(database)

    outcome = tunebook(*arguments)

    after = _records(database)
    assert outcome.code == 0, outcome.err
    assert 0 < len(before) < TRIALS
    assert after[: len(before)] == before
    assert len(after) == TRIALS == outcome.document["trials_total"]
    assert len({(workload, module) for _, workload, module in after}) == TRIALS
    # One board measures one at a time: no more than that can have been in flight.
    assert len(_rows(database, "SELECT id FROM repeats")) <= 1
    stored = {(workload, module) for _, workload, module in after}
    assert open_slots <= stored, "candidates that were stored before the kill were measured"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_a_signal_ends_the_run_in_order_and_leaves_nothing_behind(
    number: signal.Signals,
    command: list[str],
    rnet: Path,
    tmp_path: Path,
    eventually: Eventually,
) -> None:
    database = tmp_path / "tunebook.db"
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    run = subprocess.Popen(
        [
            *(*command, "tune", str(rnet), "--target", "host", "--shape", SHAPE),
            *("--trials", "100000", "--db", str(database), "--json"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Where the tests run in the background, SIGINT is ignored and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    try:
        eventually(lambda: len(_records(database)) >= 5, "records are stored", 300)
        run.send_signal(number)
        out, err = run.communicate(timeout=120)
    finally:
        run.kill()
    assert run.returncode == ExitCode.INTERRUPTED
    assert out == ""
    assert err == "error: stopped; what was measured is stored, run the same command to go on\n"
    left = {one.name for one in temporary.iterdir()} - ONNXRUNTIMES
    assert left == set()
    eventually(lambda: not _alive_in_session(run.pid), "no process of it is left")


def test_two_of_the_same_command_share_the_work(
    command: list[str], rnet: Path, tmp_path: Path
) -> None:
    database = tmp_path / "tunebook.db"
    arguments = [
        *(*command, "tune", str(rnet), "--target", "host", "--shape", SHAPE),
        *("--trials", str(TRIALS), "--db", str(database), "--json"),
    ]
    runs = [
        subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    ended = [run.communicate(timeout=500) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], ended
    records = _records(database)
    assert len(records) == TRIALS
    assert len({(workload, module) for _, workload, module in records}) == TRIALS


def _alive_in_session(leader: int) -> list[int]:
    found = []
    for pid in psutil.pids():
        # Others end while we look.
        with suppress(ProcessLookupError):
            if os.getsid(pid) == leader:
                found.append(pid)
    return found


def _rows(database: Path, query: str) -> list[tuple[Any, ...]]:
    """Nothing while there is no such table yet."""
    if not database.exists():
        return []
    engine = create_engine(f"sqlite:///{database}")
    try:
        with engine.connect() as connection:
            exists = connection.execute(
                text("SELECT 1 FROM sqlite_master WHERE name = 'slots'")
            ).first()
            return [tuple(row) for row in connection.execute(text(query))] if exists else []
    finally:
        engine.dispose()


def _records(database: Path) -> list[tuple[Any, ...]]:
    return _rows(database, "SELECT id, workload_id, module_hash FROM records ORDER BY id")


def _open_slots(database: Path) -> set[tuple[Any, ...]]:
    return set(
        _rows(
            database,
            "SELECT rounds.workload_id, slots.module_hash FROM slots "
            "JOIN rounds ON rounds.id = slots.round_id WHERE slots.record_id IS NULL",
        )
    )
