"""Ending with the process that started this one."""

from __future__ import annotations

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1


def follow_parent(parent_pid: int) -> None:
    """Die as soon as the thread that started this process ends; exit at once if it has."""
    die_with_parent()
    if os.getppid() != parent_pid:
        raise SystemExit(f"the process {parent_pid} that started this one is gone")


def die_with_parent() -> None:
    """Be killed as soon as the thread that started this process ends."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
