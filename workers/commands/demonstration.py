"""What the demo shows beside tuning and building: answers and speed against onnxruntime."""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from tunebook.cache.errors import ModelError
from tunebook.cache.targets import Target
from tunebook.tuner.builds.compiled_model import CompiledModel
from tunebook.tuner.llvm_targets import resolve_target

# magika reads the bytes of a file: 0 to 255, and 256 where there are none.
DEMO_SHAPES = {"bytes": (1, 2048)}
_DEMO_VALUES = 257
_WARM_UPS = 3
_TURNS = 60
# An attribute that changes code, by architecture.
_ONE_MORE = {"x86_64": "+prefer-256-bit", "aarch64": "+sha3", "arm": "+crypto"}

Array = NDArray[np.generic]


@dataclass(frozen=True)
class Comparison:
    """Largest absolute difference of the outputs, and median seconds a run, all runs in turn."""

    largest_difference: float
    untuned_seconds: float
    tuned_seconds: float
    onnxruntime_seconds: float
    runs: int


def demo_model() -> Path:
    """The model file of the installed package magika. Raises ModelError where it is not there."""
    spec = importlib.util.find_spec("magika")
    folders = spec.submodule_search_locations if spec else None
    files = sorted(Path(folders[0]).glob("models/*/model.onnx")) if folders else []
    if not files:
        raise ModelError(
            "the demo tunes the model of the package magika, which is not installed: run "
            "`make demo`, or `pip install --no-deps magika`"
        )
    return files[-1]


def compare(path: Path, untuned: CompiledModel, tuned: CompiledModel, threads: int) -> Comparison:
    """Runs both builds and onnxruntime on the same input, `threads` threads each."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    generator = np.random.default_rng(0)
    inputs = {
        name: generator.integers(0, _DEMO_VALUES, size=shape).astype("int32")
        for name, shape in DEMO_SHAPES.items()
    }
    expected = session.run(None, inputs)
    difference = max(
        float(np.max(np.abs(np.asarray(ours, "float64") - np.asarray(theirs, "float64"))))
        for ours, theirs in zip(tuned.run(inputs), expected, strict=True)
    )
    untuned_seconds, tuned_seconds, onnxruntime_seconds = _time_in_turn(
        [
            lambda: untuned.run(inputs),
            lambda: tuned.run(inputs),
            lambda: session.run(None, inputs),
        ]
    )
    return Comparison(difference, untuned_seconds, tuned_seconds, onnxruntime_seconds, _TURNS)


def one_attribute_more(target: Target) -> Target:
    """The same machine with one more attribute: for whoever asks, another target."""
    assert target.architecture is not None, "the target was resolved"
    extra = _ONE_MORE[target.architecture]
    return resolve_target(str(replace(target, mattr=tuple(sorted({*target.mattr, extra})))))


def _time_in_turn(runs: list[Callable[[], object]]) -> list[float]:
    seconds: list[list[float]] = [[] for _ in runs]
    for turn in range(_WARM_UPS + _TURNS):
        for run, times in zip(runs, seconds, strict=True):
            started = time.perf_counter()
            run()
            if turn >= _WARM_UPS:
                times.append(time.perf_counter() - started)
    return [statistics.median(times) for times in seconds]
