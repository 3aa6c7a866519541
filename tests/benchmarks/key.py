"""Seconds that the keys of a model of some 60 tasks take, beyond what any use of the model takes:
importing TVM and the model, and folding its constants (TVM's FoldConstant pass).

    python tests/benchmarks/key.py [--runs N]

Each run is a process of its own, so that nothing is warm. Prints the phases of each run and of each
pass of the median one, and last `RESULT {json}`.
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
from contextlib import contextmanager
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
    shown = {phase: round(seconds, 3) for phase, seconds in run["phases"].items()}
    print(f"{name}: {run['keys']} keys in {run['seconds']:.3f} s; {json.dumps(shown)}", flush=True)
    return run


def figures(name: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    seconds = [run["seconds"] for run in runs]
    middle = sorted(runs, key=lambda run: run["seconds"])[len(runs) // 2]
    passes = sorted(middle["passes"].items(), key=lambda item: -item[1])[:6]
    print(f"{name}: passes of the median run: " + ", ".join(f"{k} {v:.3f} s" for k, v in passes))
    return {
        "tasks": middle["keys"],
        "seconds": round(statistics.median(seconds), 3),
        "spread": [round(min(seconds), 3), round(max(seconds), 3)],
        "phases": {phase: round(of, 3) for phase, of in middle["phases"].items()},
    }


def run_once(name: str) -> dict[str, Any]:
    phases: dict[str, float] = {}

    @contextmanager
    def phase(named: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        phases[named] = time.perf_counter() - start

    with phase("import"):
        import tvm

        from tunebook.tuner.frontend import read_model
        from tunebook.tuner.llvm_targets import resolve_target
        from tunebook.tuner.prepare import prepare
        from tunebook.tuner.split import split_model
    passes = pass_times()
    with phase("model"):
        package, pattern, shapes = MODELS[name]
        spec = importlib.util.find_spec(package)
        assert spec is not None and spec.submodule_search_locations, "install tests/models.txt"
        (path,) = Path(spec.submodule_search_locations[0]).glob(pattern)
        imported = read_model(path, shapes)
    with phase("target"):
        target = resolve_target(TARGET)
    with phase("prepare"), tvm.transform.PassContext(instruments=[passes]):
        prepared = prepare(imported, target)
    with phase("split"):
        keys = split_model(prepared, with_tir=False).keys
    phases["folding"] = passes.seconds.get(FOLDING, 0.0)
    phases["prepare"] -= phases["folding"]
    return {
        "keys": len(keys),
        "seconds": phases["target"] + phases["prepare"] + phases["split"],
        "phases": phases,
        "passes": passes.seconds,
    }


def pass_times() -> Any:
    """An instrument for TVM's passes: the seconds of each of the outermost by name."""
    from tvm.ir.instrument import pass_instrument

    @pass_instrument
    class PassTimes:
        def __init__(self) -> None:
            self.seconds: dict[str, float] = {}
            self._starts: list[float] = []

        def run_before_pass(self, _: Any, __: Any) -> None:
            self._starts.append(time.perf_counter())

        def run_after_pass(self, _: Any, info: Any) -> None:
            seconds = time.perf_counter() - self._starts.pop()
            # The whole sequence is one pass around the others.
            if len(self._starts) == 1:
                self.seconds[info.name] = self.seconds.get(info.name, 0.0) + seconds

    return PassTimes()


if __name__ == "__main__":
    main()
