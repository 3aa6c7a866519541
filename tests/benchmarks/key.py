"""Seconds that the keys of a model of some 60 tasks take, beyond what any use of the model takes:
importing TVM and the model, and folding its constants (TVM's FoldConstant pass).

    python tests/benchmarks/key.py [--runs N]

Each run is a process of its own, so that nothing is warm. Prints the phases of each run and of each
pass of the median one, and last `RESULT {json}`. One thread does all of it, so the processor's
seconds are those of the clock on an idle machine.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

MODELS = {
    "ppocr_rec": ("rapidocr_onnxruntime", "models/*rec_infer.onnx", {"x": (1, 3, 48, 64)}),
    "ppocr_det": ("rapidocr_onnxruntime", "models/*det_infer.onnx", {"x": (1, 3, 64, 64)}),
}
TARGET = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4"
FOLDING = "FoldConstant"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--once", choices=sorted(MODELS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.once:
        print(json.dumps(run_once(arguments.once)))
        return
    runs = {name: [run_in_a_process(name) for _ in range(arguments.runs)] for name in MODELS}
    print("RESULT " + json.dumps({name: figures(name, of) for name, of in runs.items()}))


def run_in_a_process(name: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--once", name]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    run: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"{name}: {run['keys']} keys; {json.dumps(run['seconds'])}", flush=True)
    return run


def figures(name: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    runs = sorted(runs, key=lambda run: run["seconds"]["key"])
    middle = runs[len(runs) // 2]
    slowest = sorted(middle["passes"].items(), key=lambda item: -item[1])[:6]
    print(f"{name}: passes of the median run: " + ", ".join(f"{k} {v:.3f} s" for k, v in slowest))
    return {
        "tasks": middle["keys"],
        "seconds": statistics.median(run["seconds"]["key"] for run in runs),
        "spread": [runs[0]["seconds"]["key"], runs[-1]["seconds"]["key"]],
        "processor_seconds": statistics.median(
            run["seconds"]["key on the processor"] for run in runs
        ),
        "phases": middle["seconds"],
    }


class Clock:
    """Seconds of the wall clock and of the processor, by name."""

    def __init__(self) -> None:
        self.wall: dict[str, float] = {}
        self.processor: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        wall, processor = time.perf_counter(), time.process_time()
        yield
        self.wall[name] = self.wall.get(name, 0.0) + time.perf_counter() - wall
        self.processor[name] = self.processor.get(name, 0.0) + time.process_time() - processor


def run_once(name: str) -> dict[str, Any]:
    clock = Clock()
    with clock.phase("import"):
        import tvm

        from tunebook.tuner.importing.frontend import read_model
        from tunebook.tuner.llvm_targets import resolve_target
        from tunebook.tuner.splitting.prepare import prepare
        from tunebook.tuner.splitting.split import split_model
    passes = pass_times()
    with clock.phase("model"):
        package, pattern, shapes = MODELS[name]
        spec = importlib.util.find_spec(package)
        assert spec is not None and spec.submodule_search_locations, "install tests/models.txt"
        (path,) = Path(spec.submodule_search_locations[0]).glob(pattern)
        imported = read_model(path, shapes)
    with clock.phase("target"):
        target = resolve_target(TARGET)
    with clock.phase("prepare"), tvm.transform.PassContext(instruments=[passes]):
        prepared = prepare(imported, target)
    with clock.phase("split"):
        keys = split_model(prepared, with_tir=False).keys
    return {
        "keys": len(keys),
        "seconds": {
            **{phase: round(seconds, 3) for phase, seconds in clock.wall.items()},
            "folding": round(passes.clock.wall[FOLDING], 3),
            "key": round(beyond_folding(clock.wall, passes.clock.wall), 3),
            "key on the processor": round(
                beyond_folding(clock.processor, passes.clock.processor), 3
            ),
        },
        "passes": passes.clock.wall,
    }


def beyond_folding(phases: dict[str, float], passes: dict[str, float]) -> float:
    return phases["target"] + phases["prepare"] + phases["split"] - passes[FOLDING]


def pass_times() -> Any:
    """An instrument for TVM's passes: the seconds of each of the outermost by name."""
    from tvm.ir.instrument import pass_instrument

    @pass_instrument
    class PassTimes:
        def __init__(self) -> None:
            self.clock = Clock()
            self._running: list[Any] = []

        def run_before_pass(self, _: Any, info: Any) -> None:
            # The whole sequence is one pass around the others.
            phase = self.clock.phase(info.name) if len(self._running) == 1 else nullcontext()
            phase.__enter__()
            self._running.append(phase)

        def run_after_pass(self, _: Any, __: Any) -> None:
            self._running.pop().__exit__(None, None, None)

    return PassTimes()


if __name__ == "__main__":
    main()
