"""Starts worker_process.py."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_SCRIPT = Path(__file__).parent / "worker_process.py"


def start(task: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(_SCRIPT), task, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def run_at_once(count: int, task: str, *arguments: object) -> list[Any]:
    """Runs as many processes of a task at the same time; gives what each of them printed."""
    return _outputs([start(task, *arguments) for _ in range(count)])


def run_numbered(count: int, task: str, *arguments: object) -> list[Any]:
    """As run_at_once, each with its number, from 0, as the last argument."""
    return _outputs([start(task, *arguments, number) for number in range(count)])


def _outputs(processes: Sequence[subprocess.Popen[str]]) -> list[Any]:
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return [json.loads(output) for output in outputs]
