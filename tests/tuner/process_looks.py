"""Which processes of a module a test has started."""

from __future__ import annotations

import psutil


def children_that_run(module: str) -> list[psutil.Process]:
    """The processes that this one has now and that run a module."""
    return [one for one in psutil.Process().children() if _runs(module, one)]


def measuring_processes() -> list[psutil.Process]:
    """The measuring processes that this one has now."""
    return children_that_run("tunebook.tuner.trials.measure_process")


def _runs(module: str, process: psutil.Process) -> bool:
    try:
        return module in process.cmdline()
    except psutil.Error:  # it ended meanwhile
        return False
