"""A look-up client needs neither TVM nor a web server: `cache` never loads them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import tunebook.cache

FORBIDDEN = ("tvm", "tvm_ffi", "fastapi", "onnx", "numpy", "tunebook.tuner", "tunebook.workers")
PROGRAM = """
import importlib, json, sys
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.store import Store
for name in json.loads(sys.argv[1]):
    importlib.import_module("tunebook.cache." + name)
with Store.open(sys.argv[2]) as store:
    key = ScheduleKey("relu", "f32[1] -> f32[1]", "llvm -mtriple=a-b -num-cores=1", "tvm", "0")
    (miss,) = store.lookup([key]).misses
print(json.dumps(sorted(sys.modules)))
"""


def test_a_look_up_loads_neither_tvm_nor_a_web_server(tmp_path: Path) -> None:
    (folder,) = tunebook.cache.__path__
    files = (path.relative_to(folder).with_suffix("") for path in Path(folder).rglob("*.py"))
    # Migrations are run by Alembic alone.
    modules = [".".join(file.parts) for file in files if file.parts[0] != "migrations"]
    command = [sys.executable, "-c", PROGRAM, json.dumps(modules), str(tmp_path / "x.db")]
    loaded = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert {"tunebook.cache.store", "tunebook.cache.remote.client"} <= set(loaded)
    assert [
        name
        for name in loaded
        if name in FORBIDDEN or name.startswith(tuple(f"{f}." for f in FORBIDDEN))
    ] == []
