"""What this machine is: its architecture, and its kernel's start."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from tunebook.workers.boards.server.system_files import text_of


def machine_triple() -> str:
    """The triple of code that this machine runs, as a target names it."""
    architecture = machine()
    return f"{architecture}-linux-gnu{'eabihf' if architecture.startswith('arm') else ''}"


def boot_id() -> str:
    """What tells the kernel that runs here from every other, by one of its starts: the same for all
    of its containers, and empty where it does not tell."""
    return text_of(Path("/proc/sys/kernel/random/boot_id")) or ""


def machine() -> str:
    """The architecture of code that runs here, as LLVM calls it."""
    name = platform.machine().lower()
    # A 64-bit kernel may run a 32-bit user space, to which code has to fit.
    if name in ("aarch64", "arm64") and sys.maxsize < 2**32:
        return "armv7l"
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)
