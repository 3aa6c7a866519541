"""How busy a worker keeps its boards, and stock `tune_relax` the one that it has.

    python tests/benchmarks/fleet.py [--boards 4] [--trials 240] [--seconds 1.0] [--model magika]
    python tests/benchmarks/fleet.py --record FILE

Simulated boards (simulated_board.py) are real board servers at a real tracker, one process each,
that answer after the seconds that a trial was recorded to take; a real worker serves a submitted
job on them, with real searches and builds on this machine. Boards write down when a trial begins
and ends there. The share is what all boards were busy from the first trial to the last claim, that
is while there was work left; stock's, on one such board, from its first trial to its last. TVM's
slow start is removed for it, or it measures nothing.

What trials take stands in tests/data/board-seconds/rnet.json. It was recorded with `--record`: an
emulated AArch64 board (QEMU on this machine, one core) measured this model's trials as Tunebook
measures: a library is uploaded and loaded, its kernel run once and then repeated until the times
agree. An emulator's speed is no board's; so these seconds are scaled to a mean of `--seconds`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from record_histories import MODELS, RealModel

from tunebook.cache.model_files import ModelFiles
from tunebook.cache.queue.fleet import ServedBoard
from tunebook.cache.queue.submissions import BudgetLimits, JobRequest, JobState
from tunebook.cache.store import BoardPeak, Store
from tunebook.tuner.importing.frontend import read_model
from tunebook.tuner.llvm_targets import resolve_target, tvm_target
from tunebook.tuner.search.allocation import RoundSizes
from tunebook.tuner.splitting.prepare import prepare
from tunebook.tuner.splitting.program import describe
from tunebook.tuner.splitting.split import split_model
from tunebook.tuner.trials.trials import BoardAddress
from tunebook.tuner.tvm_compat import load_cpu_intrinsics
from tunebook.workers.boards.board_classes import BoardClass
from tunebook.workers.boards.board_supervisor import BoardSupervisor, ServerCommand
from tunebook.workers.boards.emulated_board import emulated_board
from tunebook.workers.boards.host_server import host_server
from tunebook.workers.boards.tracker import TrackerAddress, query_tracker, running_tracker
from tunebook.workers.commands.search_worker import SearchWorker
from tunebook.workers.fleet.fleet_worker import FleetSettings, run_fleet_worker
from tunebook.workers.rounds.workbench import WorkerSettings

_RECORDED = Path(__file__).parents[1] / "data" / "board-seconds" / "rnet.json"
_BOARD_CLASS = "simulated"
_RECORDED_TRIALS = 120
_LOOK_SECONDS = 0.05
# TVM's own default asks for 64 trials a round.
_STOCK_ROUND = 64
# What every kernel of every machine stays below: the peak of a simulated board says nothing.
_ANY_PEAK = BoardPeak(1e18, 1e18)


@dataclass(frozen=True)
class Interval:
    """Seconds of the monotonic clock in which a board had a trial."""

    begin: float
    end: float


@dataclass(frozen=True)
class Boards:
    """Simulated boards at a tracker, and where each writes down when it is busy."""

    tracker: TrackerAddress
    busy_files: tuple[Path, ...]

    def intervals(self) -> list[Interval]:
        """All busy intervals so far, in order of their beginnings."""
        lines = [line for file in self.busy_files for line in file.read_text().splitlines()]
        found = [Interval(*map(float, line.split())) for line in lines]
        return sorted(found, key=lambda one: one.begin)


@contextmanager
def simulated_boards(count: int, seconds: float, folder: Path) -> Iterator[Boards]:
    """So many boards that take so many seconds for a trial on average, as was recorded but for the
    speed."""
    recorded = folder / "recorded.json"
    document = json.loads(_RECORDED.read_text())
    mean = statistics.mean(board for trials in document["programs"].values() for _, board in trials)
    recorded.write_text(json.dumps({**document, "scale": seconds / mean}))
    files = tuple(folder / f"busy-{number}" for number in range(count))
    environment = host_server(1).environment
    with ExitStack() as stack:
        tracker = stack.enter_context(running_tracker())
        for number, file in enumerate(files):
            file.touch()
            command = [
                *(sys.executable, str(Path(__file__).with_name("simulated_board.py"))),
                *("--recorded", str(recorded), "--busy", str(file)),
            ]
            stack.enter_context(
                BoardSupervisor(
                    ServerCommand(command, environment),
                    tracker,
                    _BOARD_CLASS,
                    name=f"simulated-{number}",
                )
            )
        yield Boards(tracker, files)


def busy_share(intervals: Sequence[Interval], boards: int, begin: float, end: float) -> float:
    """The share of the time of all boards between two moments in which they had a trial."""
    busy = sum(max(0.0, min(one.end, end) - max(one.begin, begin)) for one in intervals)
    return busy / (boards * (end - begin))


def mean_seconds(intervals: Sequence[Interval]) -> float:
    """What a trial took a board on average."""
    return round(sum(one.end - one.begin for one in intervals) / len(intervals), 3)


# --- our worker ----------------------------------------------------------------------------------


def run_worker(database: str, models: str, tracker: TrackerAddress, most_boards: int) -> None:
    """The process of the worker; ends with its input. The boards are of this machine and taken for
    others', as what they take does not depend on what else it does."""

    def look() -> list[ServedBoard]:
        registered = query_tracker(tracker).boards_of(_BOARD_CLASS)
        return [
            ServedBoard(_BOARD_CLASS, one.name or "", emulated=False, cores=4) for one in registered
        ]

    @contextmanager
    def address() -> Iterator[BoardAddress]:
        yield BoardAddress(tracker.host, tracker.port, _BOARD_CLASS)

    boards = BoardClass(_BOARD_CLASS, address, look, lambda _: None, on_this_machine=False)
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    settings = WorkerSettings.for_this_machine(board_timeout=60, most_boards=most_boards)
    with Store.open(database) as store:
        run_fleet_worker(store, ModelFiles(models), [boards], FleetSettings(settings), stop=stop)


@contextmanager
def worker_process(
    database: str, models: str, tracker: TrackerAddress, most_boards: int, log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A worker in a process of its own, ended on leaving."""
    command = [
        *(sys.executable, __file__, "--worker", str(tracker)),
        *("--database", database, "--model-files", models, "--most-boards", str(most_boards)),
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output)
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)


def submit(store: Store, models: ModelFiles, model: RealModel, trials: int) -> int:
    """A job for a model on the simulated boards."""
    content = model.path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    with models.upload(digest) as upload:
        upload.write(content)
        upload.finish()
    target = resolve_target("host", num_cores=4)
    store.save_board_peak(_BOARD_CLASS, str(target), _ANY_PEAK)
    shapes = " ".join(f"{name}={','.join(map(str, shape))}" for name, shape in model.shapes.items())
    request = JobRequest(digest, shapes, str(target), _BOARD_CLASS)
    return store.queue.submit(request, BudgetLimits(trials=trials)).job_id


def measure_ours(model: RealModel, trials: int, count: int, seconds: float) -> dict[str, Any]:
    """How busy our worker keeps the boards while work is left."""
    with (
        tempfile.TemporaryDirectory(prefix="tunebook-fleet-") as name,
        simulated_boards(count, seconds, Path(name)) as boards,
        Store.open(str(Path(name, "tunebook.db"))) as store,
    ):
        folder = Path(name)
        job_id = submit(store, ModelFiles(str(folder / "models")), model, trials)
        log = folder / "worker.log"
        with worker_process(
            str(folder / "tunebook.db"), str(folder / "models"), boards.tracker, count, log
        ) as process:
            claims = _watch_claims(store, job_id, process, log)
        budget = store.queue.job(job_id).budget
        intervals = boards.intervals()
    first = next(one.begin for one in intervals if one.begin >= claims.begin)
    measured = [one for one in intervals if first <= one.begin <= claims.end]
    return {
        "boards": count,
        "busy_share": round(busy_share(intervals, count, first, claims.end), 3),
        "trials": budget.trials_spent,
        "run_seconds": round(claims.end - first, 1),
        "seconds_on_board": mean_seconds(measured),
        "trials_per_second": round(len(measured) / (claims.end - first), 2),
    }


def _watch_claims(
    store: Store, job_id: int, process: subprocess.Popen[bytes], log: Path
) -> Interval:
    """From the first claim of a round to the last, once the job is done."""
    first = last = 0.0
    granted = 0
    while True:
        job = store.queue.job(job_id)
        if job.budget.trials_granted > granted:
            granted, last = job.budget.trials_granted, time.monotonic()
            first = first or last
        if job.state in (JobState.DONE, JobState.FAILED, JobState.CANCELLED):
            assert job.state is JobState.DONE, (job.reason, job.log)
            return Interval(first, last)
        assert process.poll() is None, log.read_text()[-4000:]
        time.sleep(_LOOK_SECONDS)


# --- stock ---------------------------------------------------------------------------------------


def measure_stock(model: RealModel, trials: int, seconds: float) -> dict[str, Any]:
    """How busy TVM's own tuning keeps one board."""
    load_cpu_intrinsics()
    from tvm.s_tir import meta_schedule as ms

    target = resolve_target("host", num_cores=4)
    prepared = prepare(read_model(model.path, model.shapes), target)
    with (
        tempfile.TemporaryDirectory(prefix="tunebook-fleet-") as name,
        simulated_boards(1, seconds, Path(name)) as boards,
    ):
        config = ms.runner.RPCConfig(
            tracker_host=boards.tracker.host,
            tracker_port=boards.tracker.port,
            tracker_key=_BOARD_CLASS,
            session_timeout_sec=60,
        )
        ms.relax_integration.tune_relax(
            prepared.module,
            {},
            tvm_target(target),
            str(Path(name, "work")),
            max_trials_global=trials,
            num_trials_per_iter=_STOCK_ROUND,
            builder=ms.builder.LocalBuilder(initializer=load_cpu_intrinsics),
            runner=ms.runner.RPCRunner(config, initializer=load_cpu_intrinsics),
            seed=1,
        )
        intervals = boards.intervals()
    begin, end = intervals[0].begin, intervals[-1].end
    return {
        "boards": 1,
        "busy_share": round(busy_share(intervals, 1, begin, end), 3),
        "trials": len(intervals),
        "run_seconds": round(end - begin, 1),
        "seconds_on_board": round(
            sum(one.end - one.begin for one in intervals) / len(intervals), 3
        ),
        "trials_per_second": round(len(intervals) / (end - begin), 2),
    }


# --- recording -----------------------------------------------------------------------------------


def record(file: Path, model: RealModel) -> None:
    """Tunes a model on an emulated board, timed like a real one, and writes down what its trials
    took there."""
    target = resolve_target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -num-cores=1")
    split = split_model(prepare(read_model(model.path, model.shapes), target))
    with (
        tempfile.TemporaryDirectory(prefix="tunebook-fleet-") as name,
        Store.open(str(Path(name, "tunebook.db"))) as store,
        emulated_board() as emulated,
    ):
        # Timed, not counted; and nothing is built beside it.
        address = replace(emulated, emulated=False, shares_host=True)
        store.save_board_peak(address.board_class, str(target), _ANY_PEAK)
        job_id = store.submit_job(
            store.save_model(split), address.board_class, trials=_RECORDED_TRIALS, more=None
        )
        settings = replace(
            WorkerSettings.for_this_machine(board_timeout=60), sizes=RoundSizes(largest=8)
        )
        SearchWorker(store, target, address, settings, lambda progress: None).run(job_id)
        programs = {}
        for state in store.task_states(job_id):
            described = describe(store.workload(state.key.workload))
            buffers = " ".join(
                f"{one.dtype}{list(one.shape)}".replace(" ", "") for one in described.buffers
            )
            measured = [record.measurement for record in store.records(state.key)]
            programs[buffers] = [
                [float(f"{one.seconds:.4g}"), round(one.board_seconds, 3)]
                for one in measured
                if one.seconds is not None
            ]
    head = {"model": model.file, "board": "QEMU's user mode, AArch64, one core"}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in programs.items())
    file.write_text(f'{json.dumps(head)[:-1]}, "programs": {{\n{lines}\n}}}}\n')


# --- the command ---------------------------------------------------------------------------------


def _child(side: str, options: Sequence[str]) -> dict[str, Any]:
    """One of the two in a process of its own: TVM keeps what it has loaded."""
    command = [sys.executable, __file__, "--run", side, *options]
    output = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    print(side, json.dumps(found), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--boards", type=int, default=4)
    parser.add_argument("--trials", type=int, default=240)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a board, a trial on average")
    parser.add_argument("--model", choices=sorted(MODELS), default="rnet")
    parser.add_argument("--only", choices=["ours", "stock"])
    parser.add_argument("--record", type=Path, metavar="FILE")
    parser.add_argument("--run", choices=["ours", "stock"], help=argparse.SUPPRESS)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--database", help=argparse.SUPPRESS)
    parser.add_argument("--model-files", help=argparse.SUPPRESS)
    parser.add_argument("--most-boards", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    model = MODELS[given.model]
    if given.record:
        record(given.record, model)
    elif given.worker:
        host, _, port = given.worker.rpartition(":")
        tracker = TrackerAddress(host, int(port))
        run_worker(given.database, given.model_files, tracker, given.most_boards)
    elif given.run == "ours":
        print(json.dumps(measure_ours(model, given.trials, given.boards, given.seconds)))
    elif given.run == "stock":
        print(json.dumps(measure_stock(model, given.trials, given.seconds)))
    else:
        options = [
            *(f"--boards={given.boards}", f"--trials={given.trials}"),
            *(f"--seconds={given.seconds}", f"--model={given.model}"),
        ]
        sides = [given.only] if given.only else ["ours", "stock"]
        found = {side: _child(side, options) for side in sides}
        found["cores"] = len(os.sched_getaffinity(0))
        print("RESULT " + json.dumps({"model": given.model, "seconds": given.seconds, **found}))


if __name__ == "__main__":
    main()
