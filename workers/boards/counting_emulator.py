"""An emulator that counts the instructions of its guest: QEMU with a plugin of ours.

Its wall time ranks schedules badly; the instructions that it executed are repeatable. The plugin
is built once by this machine's C compiler, and kept in the user's cache folder once it was seen to
count.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import platformdirs

from tunebook.cache.errors import BoardError

SOURCE = Path(__file__).with_name("count_instructions.c")
# The emulator that takes plugins; the static one cannot load any.
QEMU_WITH_PLUGINS = "qemu-aarch64"
# The file descriptor of the count in the guest: beyond those that anything else gets.
COUNT_FILE = 250
_COMPILERS = ("cc", "gcc", "clang")
# Versions of QEMU's plugin interface, newest first: an emulator refuses those that it is not of.
_PLUGIN_VERSIONS = (2, 1)
_SECONDS = 120.0
# Run in the guest: fails unless its own instructions are counted, in a forked process too.
_PROBE = f"""
import mmap, os
def count():
    with mmap.mmap({COUNT_FILE}, 4096, prot=mmap.PROT_READ) as page:
        return int.from_bytes(page[:8], "little")
def counts():
    before = count()
    sum(range(10_000))
    return 10_000 < count() - before < 10_000_000
if not counts():
    raise SystemExit("it counts nothing")
child = os.fork()
if child == 0:
    os._exit(0 if counts() else 1)
if os.waitpid(child, 0)[1] != 0:
    raise SystemExit("it counts nothing in a forked process")
"""


def counting_emulator(guest_python: Sequence[str]) -> list[str]:
    """The beginning of a command line, which `guest_python` goes on: the emulator's options for
    its guest, and the guest's Python.

    Builds the plugin if need be. Raises BoardError where this machine cannot count: no emulator
    that takes plugins, or no C compiler.
    """
    qemu = shutil.which(QEMU_WITH_PLUGINS)
    if qemu is None:
        raise BoardError(f"{QEMU_WITH_PLUGINS} is not installed: apt-get install qemu-user")
    folder = Path(platformdirs.user_cache_dir("tunebook"))
    plugin = folder / f"count-instructions-{_identity(qemu)}.so"
    if not plugin.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _build(plugin, qemu, guest_python)
    return _with_plugin(qemu, plugin)


def _with_plugin(qemu: str, plugin: Path) -> list[str]:
    return [qemu, "-plugin", f"{plugin},descriptor={COUNT_FILE}"]


def _identity(qemu: str) -> str:
    """Tells one source and one emulator from another; without starting the emulator."""
    path = Path(qemu).resolve()
    about = path.stat()
    text = f"{path} {about.st_size} {about.st_mtime_ns} {SOURCE.read_text()}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _build(plugin: Path, qemu: str, guest_python: Sequence[str]) -> None:
    """Tries the versions of the interface until one counts, and puts it in place at once."""
    compiler = _compiler()
    said = ""
    with tempfile.TemporaryDirectory(dir=plugin.parent, prefix="plugin-") as name:
        for version in _PLUGIN_VERSIONS:
            built = Path(name, f"version-{version}.so")
            options = ["-O2", "-shared", "-fPIC", f"-DPLUGIN_VERSION={version}", "-pthread"]
            said = _run([*compiler, *options, "-o", str(built), str(SOURCE)])
            if not said:
                said = _run([*_with_plugin(qemu, built), *guest_python, "-c", _PROBE])
            if not said:
                built.rename(plugin)
                return
    raise BoardError(f"QEMU's plugin that counts instructions does not work: {said}")


def _compiler() -> list[str]:
    for name in _COMPILERS:
        path = shutil.which(name)
        if path is not None:
            return [path]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise BoardError("no C compiler is installed: apt-get install gcc")


def _run(command: Sequence[str]) -> str:
    """Runs a step; the last line that it said where it failed, else nothing."""
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}"
    if done.returncode == 0:
        return ""
    words = [line for line in done.stdout.splitlines() if line.strip()]
    return f"{command[0]}: {words[-1] if words else f'exit code {done.returncode}'}"
