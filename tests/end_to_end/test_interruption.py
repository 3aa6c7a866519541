"""A tuning run that is killed, and what the same command does afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

pytestmark = pytest.mark.slow

SHAPE = "input_2=1,24,24,3"
TRIALS = 40


def test_kill_9_loses_nothing_repeats_nothing_and_keeps_the_budget(
    tunebook: Any, command: list[str], rnet: Path, tmp_path: Path
) -> None:
    database = tmp_path / "tunebook.db"
    arguments = [
        *("tune", str(rnet), "--target", "host", "--shape", SHAPE),
        *("--trials", str(TRIALS), "--db", str(database), "--json"),
    ]
    killed = subprocess.Popen(
        [*command, *arguments], stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        _wait_for_records(database, 14)
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
    stored = {(workload, module) for _, workload, module in after}
    assert open_slots <= stored, "candidates that were stored before the kill were measured"


def _wait_for_records(database: Path, count: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if database.exists() and len(_records(database)) >= count:
            return
        time.sleep(0.05)
    pytest.fail("the run stored no records within two minutes")


def _rows(database: Path, query: str) -> list[tuple[Any, ...]]:
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
