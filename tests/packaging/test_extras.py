"""What needs only a part of the extras runs without the others."""

from __future__ import annotations

import subprocess
import sys

import pytest

OF_TUNE = ("tvm", "tvm_ffi", "numpy", "psutil", "cloudpickle", "tornado", "onnx", "xgboost")
OF_SERVE = ("fastapi", "starlette", "uvicorn", "jinja2", "fsspec", "prometheus_client")
WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""
HELP = """
from tunebook.service.cli import run
assert run(["--help"]) == 0
"""


@pytest.mark.parametrize(
    ("missing", "program"),
    [
        ((*OF_TUNE, *OF_SERVE), HELP),
        ((*OF_TUNE, *OF_SERVE), "from tunebook.cache import connect"),
        (OF_TUNE, "import tunebook.service.app, tunebook.service.api.processes.embedded_worker"),
    ],
    ids=["the command line", "the client", "the coordinator"],
)
def test_it_starts_without_the_extras_it_does_not_need(
    missing: tuple[str, ...], program: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(missing=missing) + program],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
