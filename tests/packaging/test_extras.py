"""What needs only a part of the extras runs without the others."""

from __future__ import annotations

import subprocess
import sys

import pytest

OF_TUNE = ("tvm", "tvm_ffi", "numpy", "psutil", "cloudpickle", "tornado", "onnx", "xgboost")
# Of these the extra `board` brings nothing.
OF_TUNE_ALONE = ("onnx", "onnxruntime", "xgboost", "ml_dtypes", "ziglang")
OF_SERVE = ("fastapi", "starlette", "uvicorn", "jinja2", "fsspec", "prometheus_client")
# Of a fleet: neither a laptop nor a build needs them.
OF_FLEET = ("redis", "psycopg")
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
BOARDS = """
import tempfile
from tunebook.cache.storage.database import upgrade
from tunebook.service.cli import run
with tempfile.TemporaryDirectory() as folder:
    upgrade(f"{folder}/tunebook.db")
    assert run(["boards", "--db", f"{folder}/tunebook.db"]) == 0
"""
COORDINATOR = """
import tunebook.service.app, tunebook.service.api.processes.embedded_worker
from tunebook.cache.live.live import Live
Live.open(None).close()
"""
# All that the commands of a board load, up to where they would run until they are stopped.
BOARD = """
import os
os.environ["TVM_USE_RUNTIME_LIB"] = "1"
import tvm.rpc.tracker
import tunebook.workers.boards.emulated_sysroot
from tunebook.service.commands import board_command, tracker_command
from tunebook.workers.agent.board_agent import AgentSettings
from tunebook.workers.boards.tracker import TrackerAddress
reports = board_command._reports("http://127.0.0.1:1", "pi", "pi-1")
settings = AgentSettings("pi", "pi-1", TrackerAddress("127.0.0.1", 1))
board_command._make_agent(settings, reports, "performance", emulated=False)
assert "libtvm_compiler" not in open("/proc/self/maps").read()
assert [name for name in sys.modules if name.startswith("tunebook.tuner.")] == []
"""


@pytest.mark.parametrize(
    ("missing", "program"),
    [
        ((*OF_TUNE, *OF_SERVE, *OF_FLEET), HELP),
        ((*OF_TUNE, *OF_SERVE, *OF_FLEET), "from tunebook.cache import connect"),
        ((*OF_TUNE, *OF_SERVE), BOARDS),
        ((*OF_TUNE, *OF_FLEET), COORDINATOR),
    ],
    ids=["the command line", "the client", "the boards", "the coordinator"],
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
