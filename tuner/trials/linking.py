"""Linking shared libraries on this machine, for whichever architecture the target names.

A kernel needs no start-up code and only the C library and libm, so any linker does. Milliseconds
a kernel of 25 KB, measured on x86-64: `cc` 10, `aarch64-linux-gnu-gcc` 13, ziglang's `ld.lld` 20
(its `cc` takes 45, and at its very first link 16 s to build a C library).
"""

from __future__ import annotations

import importlib.util
import platform
import re
import shutil
import subprocess
import tempfile
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
            # Always needed: without it a library of another process's C library may go unfound.
            return _fcompile([path, "-shared", "-fPIC"], ["-Wl,--no-as-needed", "-lm"])
    return None


def _zig_linker(architecture: _Architecture) -> FCompile | None:
    spec = importlib.util.find_spec("ziglang")
    if spec is None or not spec.submodule_search_locations:
        return None
    zig = Path(spec.submodule_search_locations[0]) / "zig"
    linker = [str(zig), "ld.lld", "-m", architecture.emulation, "-shared"]

    def link(output: str, objects: Sequence[str], **_: Any) -> None:
        with tempfile.TemporaryDirectory(prefix="tunebook-link-") as folder:
            # Only the libraries' names matter here: the board has the libraries.
            stubs = [_stub(linker, Path(folder), name) for name in ("libm.so.6", "libc.so.6")]
            _run([*linker, "-o", output, *objects, "--no-as-needed", *stubs])

    return _formatted(link)


def _stub(linker: Sequence[str], folder: Path, name: str) -> str:
    """A library without content, for its name to be written into what is linked against it."""
    empty = folder / "empty.ld"
    empty.write_text("")
    path = folder / name
    _run([*linker, "-soname", name, "-o", str(path), str(empty)])
    return str(path)


def _fcompile(before: Sequence[str], after: Sequence[str]) -> FCompile:
    def link(output: str, objects: Sequence[str], **_: Any) -> None:
        _run([*before, "-o", output, *objects, *after])

    return _formatted(link)


def _formatted(link: FCompile) -> FCompile:
    link.output_format = "so"  # type: ignore[attr-defined]  # what export_library asks for
    return link


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIME_LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LinkError(f"{command[0]} failed: {error}; check that it runs") from error
    if done.returncode != 0:
        said = " ".join(done.stderr.decode(errors="replace").split())[:800]
        raise LinkError(f"{command[0]} failed with exit code {done.returncode}: {said}")
