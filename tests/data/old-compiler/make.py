"""Makes records.json: what searches find under an older TVM, for tests of what survives a new one.

    python tests/data/old-compiler/make.py FOLDER

In FOLDER it makes an environment with that TVM (all else comes from the one that runs this), and a
copy of Tunebook whose check of TVM's version lets it pass. There Tunebook searches as it always
does, on an emulated board with that TVM's own runtime. Run again, it goes on where it was stopped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from contextlib import nullcontext
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
RECORDS = HERE / "records.json"

OLD_TVM = ("apache-tvm==0.26.0", "apache-tvm-ffi==0.1.14.post1")
# Tunebook as of this commit, whatever has moved since, so that CHANGES keep fitting.
COMMIT, PACKAGES = "c8f5428", ("cache", "tuner", "workers")
# And these files as of a later one, whose counts repeat themselves.
MODELS = "tests/benchmarks/recovery_models.py"
NEWER_COMMIT, NEWER = "9ed49ed", ("workers/board_agent.py", MODELS)
# What its sources say, and what they must say for the older TVM, which loads from buffers by nodes
# of another name.
CHANGES = {
    "tuner/tvm_compat.py": {'("0.27.0", "0.27.0.")': '("0.26.0", "0.26.0.")'},
    "tuner/tir_walk.py": {"TensorLoad": "BufferLoad"},
    "tuner/index_ranges.py": {
        "from tvm import sym, tirx": "from tvm import arith as sym, tirx",
        "TensorLoad": "BufferLoad",
        ".source": ".buffer",
    },
    "tuner/program.py": {"load.source": "load.buffer"},
    "workers/task_tools.py": {
        "int(key.workload_hash[:8], 16)": (
            '__import__("zlib").crc32(f"{key.op} {key.buffers}".encode())'
        )
    },
}
TRIALS = 64
KEPT = 4
TARGET = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=1"


def main() -> None:
    folder = Path(sys.argv[1]).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    python = _environment(folder / "environment")
    copy = folder / "copy" / "tunebook"
    _copy(copy)
    paths = [str(copy.parent), str((copy / MODELS).parent)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    command = [str(python), __file__, str(folder), "--inside"]
    subprocess.run(command, check=True, env=environment)


def _environment(folder: Path) -> Path:
    """The Python of an environment with the older TVM before everything else."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=False)
        (site,) = folder.glob("lib/python*/site-packages")
        (site / "everything-else.pth").write_text(sysconfig.get_path("purelib") + "\n")
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*install, "--target", str(site), *OLD_TVM], check=True)
    return python


def _copy(to: Path) -> None:
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    for commit, names in ((COMMIT, PACKAGES), (NEWER_COMMIT, NEWER)):
        archive = subprocess.run(
            ["git", "archive", commit, *names], cwd=ROOT, check=True, stdout=subprocess.PIPE
        )
        subprocess.run(["tar", "--extract"], cwd=to, check=True, input=archive.stdout)
    for name, changes in CHANGES.items():
        text = (to / name).read_text()
        for new, old in changes.items():
            assert new in text, f"{name} does not say {new}"
            text = text.replace(new, old)
        (to / name).write_text(text)


def search_inside(folder: Path) -> dict[str, Any]:
    """Runs in the environment: searches for every task, and gives the best of each."""
    from recovery_models import PARTS, single_tasks

    from tunebook.cache.store import Store
    from tunebook.tuner.compiler import compiler_text
    from tunebook.tuner.llvm_targets import resolve_target
    from tunebook.workers.boards import BoardPlan
    from tunebook.workers.emulated_board import emulated_board
    from tunebook.workers.search_worker import WorkerSettings
    from tunebook.workers.tuning import BudgetRequest, TuningPlan, tune

    target = resolve_target(TARGET)
    # By one thread, which draws the same random numbers each time.
    settings = WorkerSettings(processes=1, board_timeout=60)
    workloads = []
    with Store.open(str(folder / "searches.db")) as store, emulated_board() as board:
        boards = BoardPlan(board.board_class, True, lambda: nullcontext(board))
        for model in single_tasks(PARTS, target, folder):
            budget = BudgetRequest(trials=TRIALS)
            tune(TuningPlan(model, target, boards, budget, settings), store, lambda progress: None)
            workloads.append(_described(model, store))
            print(workloads[-1]["op"], workloads[-1]["records"][0]["seconds"], flush=True)
    return {"compiler": compiler_text(), "target": str(target), "workloads": workloads}


def _described(model: Any, store: Any) -> dict[str, Any]:
    (task,) = model.tasks
    key = task.workload.key
    records = [one for one in store.records(model.keys[0]) if one.measurement.seconds is not None]
    records.sort(key=lambda one: (not one.verified, one.measurement.seconds))
    return {
        "op": key.op,
        "buffers": key.buffers,
        "hash": key.hash,
        "flops": task.workload.flops,
        "digest": model.digest,
        "records": [
            {
                "seconds": round(one.measurement.seconds, 12),
                "module_hash": one.candidate.module_hash,
                "verified": one.verified,
                "trace": json.loads(one.candidate.trace),
            }
            for one in records[:KEPT]
        ],
    }


if __name__ == "__main__":
    if "--inside" in sys.argv:
        found = search_inside(Path(sys.argv[1]))
        RECORDS.write_text(json.dumps(found, separators=(",", ":")) + "\n")
    else:
        main()
