"""The memory of a worker's processes over 2,000 trials.

    python tests/benchmarks/worker_memory.py [--trials 2000] [--boards 2] [--model rnet|magika]

A real worker serves a submitted job on simulated boards that answer fast (fleet.py); every 200
trials the resident memory of all its processes is added up, boards and tracker not among them:
searching, building, and measuring on boards, one process each. A worker begins with growing: it
opens what it needs, and keeps what it needs again up to its limits. So the slope is that of the
second half, by least squares, and says what it grows by in 1,000 trials.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from fleet import simulated_boards, submit, worker_process
from record_histories import MODELS, RealModel

from tunebook.cache.model_files import ModelFiles
from tunebook.cache.queue.submissions import JobState
from tunebook.cache.store import Store

# Far less than making a trial takes.
_SECONDS = 0.01
_EVERY = 200
_LOOK_SECONDS = 0.2
_MEBIBYTE = 2**20
_MODULES = {"build_process": "build", "measure_process": "measure", "--worker": "worker"}


@dataclass(frozen=True)
class Figure:
    """Mebibytes after so many trials: together, and of each kind of process."""

    trials: int
    mebibytes: float
    of_kinds: dict[str, float] = field(default_factory=dict)


def memory(root: psutil.Process, trials: int) -> Figure:
    """What a process and all that it started have in memory now."""
    kinds: dict[str, float] = {}
    for process in [root, *root.children(recursive=True)]:
        try:
            resident = process.memory_info().rss / _MEBIBYTE
            command = " ".join(process.cmdline())
        except psutil.Error:  # it has just ended
            continue
        kind = next((kind for name, kind in _MODULES.items() if name in command), "other")
        kinds[kind] = round(kinds.get(kind, 0.0) + resident, 1)
    return Figure(trials, round(sum(kinds.values()), 1), kinds)


def slope(figures: Sequence[Figure]) -> float:
    """Mebibytes in 1,000 trials, over the second half of the figures."""
    later = figures[len(figures) // 2 :]
    line = statistics.linear_regression(
        [one.trials for one in later], [one.mebibytes for one in later]
    )
    return line.slope * 1000


def measure(model: RealModel, trials: int, boards: int) -> dict[str, Any]:
    """The figures of one worker."""
    with (
        tempfile.TemporaryDirectory(prefix="tunebook-memory-") as name,
        simulated_boards(boards, _SECONDS, Path(name)) as simulated,
        Store.open(str(Path(name, "tunebook.db"))) as store,
    ):
        folder = Path(name)
        job_id = submit(store, ModelFiles(str(folder / "models")), model, trials)
        log = folder / "worker.log"
        figures: list[Figure] = []
        with worker_process(
            str(folder / "tunebook.db"), str(folder / "models"), simulated.tracker, boards, log
        ) as process:
            root = psutil.Process(process.pid)
            while (job := store.queue.job(job_id)).state is not JobState.DONE:
                assert job.state is not JobState.FAILED, (job.reason, job.log)
                assert process.poll() is None, log.read_text()[-4000:]
                if job.budget.trials_spent >= _EVERY * (len(figures) + 1):
                    figures.append(memory(root, job.budget.trials_spent))
                    print(json.dumps(figures[-1].__dict__), flush=True)
                time.sleep(_LOOK_SECONDS)
    return {
        "model": model.file,
        "trials": job.budget.trials_spent,
        "mebibytes": {one.trials: one.mebibytes for one in figures},
        "mebibytes_per_1000_trials": round(slope(figures), 1) if len(figures) > 3 else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--boards", type=int, default=2)
    parser.add_argument("--model", choices=sorted(MODELS), default="rnet")
    given = parser.parse_args()
    print("RESULT " + json.dumps(measure(MODELS[given.model], given.trials, given.boards)))


if __name__ == "__main__":
    main()
