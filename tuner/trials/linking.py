"""Linking shared libraries on this machine, for whichever architecture the target names.

A kernel needs no start-up code and only the C library and libm, so any linker does. Most of a
linker's time goes into the C library's symbols, of which only the library's name matters here: the
board has the library. Not so libm's, where a function's version decides how fast it is.
Milliseconds of the processor a kernel of 25 KB, measured on x86-64: `cc` 8 (20 with the C library),
ziglang's `ld.lld` 7 (its `cc` takes 45, and at its very first link 16 s to build a C library).
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tunebook.cache.errors import TunebookError
from tunebook.cache.targets import ARCHITECTURES

FCompile = Callable[..., None]
_TIME_LIMIT = 120.0


class LinkError(TunebookError):
    """No linker for an architecture, or one that failed."""


@dataclass(frozen=True)
class _Architecture:
    """A `machine` as `uname -m` says it, the GNU tools' prefix, and the linker's emulation."""

    machine: str
    gnu_prefix: str
    emulation: str


_BY_NAME = {
    "x86_64": _Architecture("x86_64", "x86_64-linux-gnu-", "elf_x86_64"),
    "aarch64": _Architecture("aarch64", "aarch64-linux-gnu-", "aarch64elf"),
    "arm": _Architecture("armv7l", "arm-linux-gnueabihf-", "armelf_linux_eabi"),
}


def linker_for(target_text: str) -> FCompile:
    """The function that `export_library(fcompile=)` takes, for a canonical target.

    Raises LinkError when the architecture is unknown (it must have one of the exact names in
    `ARCHITECTURES`) or nothing here links for it.
    """
    match = re.search(r"-mtriple=([^\s-]+)", target_text)
    if match is None:
        raise LinkError(f"'{target_text}' has no -mtriple, which says what to link for; add it")
    name = match[1]
    if name not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise LinkError(f"no linker is known for the architecture '{name}'; known: {known}")
    return _linker(ARCHITECTURES[name])


@cache
def _linker(name: str) -> FCompile:
    architecture = _BY_NAME[name]
    return _compiler_driver(architecture) or _zig_linker(architecture) or _refuse(architecture)


def _refuse(architecture: _Architecture) -> FCompile:
    tool = _driver_names(architecture)[0]
    raise LinkError(
        f"nothing here links shared libraries for {architecture.machine}: install {tool} from the "
        "distribution, or the PyPI package ziglang"
    )


def _driver_names(architecture: _Architecture) -> tuple[str, ...]:
    here = ARCHITECTURES.get(platform.machine().lower())
    native = ("cc", "gcc", "clang") if architecture is _BY_NAME.get(here or "") else ()
    return (*native, f"{architecture.gnu_prefix}gcc", f"{architecture.gnu_prefix}g++")


def _compiler_driver(architecture: _Architecture) -> FCompile | None:
    for name in _driver_names(architecture):
        path = shutil.which(name)
        if path is not None:
            return _driver_link([path, "-shared", "-fPIC", "-nostdlib"])
    return None


def _driver_link(driver: Sequence[str]) -> FCompile:
    def make(name: str, path: Path) -> None:
        _run([*driver, f"-Wl,-soname,{name}", "-o", str(path), "-x", "c", os.devnull])

    stub = _Stub("libc.so.6", make)
    # What the compiler itself calls: conversions of half precision, divisions.
    helpers = _run([driver[0], "-print-libgcc-file-name"])

    def link(output: str, objects: Sequence[str], **_: Any) -> None:
        # Always needed: without it a library of another process's C library may go unfound.
        needed = ["-Wl,--no-as-needed", "-lm", stub.path()]
        _run([*driver, "-o", output, *objects, *needed, helpers])

    return _formatted(link)


def _zig_linker(architecture: _Architecture) -> FCompile | None:
    spec = importlib.util.find_spec("ziglang")
    if spec is None or not spec.submodule_search_locations:
        return None
    zig = Path(spec.submodule_search_locations[0]) / "zig"
    linker = [str(zig), "ld.lld", "-m", architecture.emulation, "-shared"]

    def make(name: str, path: Path) -> None:
        empty = path.with_name("empty.ld")
        empty.write_text("")
        _run([*linker, "-soname", name, "-o", str(path), str(empty)])

    stubs = [_Stub(name, make) for name in ("libm.so.6", "libc.so.6")]

    def link(output: str, objects: Sequence[str], **_: Any) -> None:
        needed = [stub.path() for stub in stubs]
        _run([*linker, "-o", output, *objects, "--no-as-needed", *needed])

    return _formatted(link)


class _Stub:
    """A library of a name and without content, for the name to be written into what is linked
    against it; made once, and again where somebody tidied it away. Thread-safe."""

    def __init__(self, name: str, make: Callable[[str, Path], None]) -> None:
        self._name = name
        self._make = make
        self._lock = threading.Lock()
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def path(self) -> str:
        with self._lock:
            if self._folder is None or not Path(self._folder.name, self._name).is_file():
                self._folder = tempfile.TemporaryDirectory(prefix="tunebook-link-")
                self._make(self._name, Path(self._folder.name, self._name))
            return str(Path(self._folder.name, self._name))


def _formatted(link: FCompile) -> FCompile:
    link.output_format = "so"  # type: ignore[attr-defined]  # what export_library asks for
    return link


def _run(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIME_LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LinkError(f"{command[0]} failed: {error}; check that it runs") from error
    if done.returncode != 0:
        said = " ".join(done.stderr.decode(errors="replace").split())[:800]
        raise LinkError(f"{command[0]} failed with exit code {done.returncode}: {said}")
    return done.stdout.decode().strip()
