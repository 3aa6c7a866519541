"""Starts worker_process.py."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

_SCRIPT = Path(__file__).parent / "worker_process.py"


def start(task: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(_SCRIPT), task, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def run_at_once(count: int, task: str, *arguments: object) -> list[Any]:
    """Runs as many processes of a task at the same time; gives what each of them printed."""
    processes = [start(task, *arguments) for _ in range(count)]
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * count
    return [json.loads(output) for output in outputs]
