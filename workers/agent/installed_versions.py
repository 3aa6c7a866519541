"""The versions of what a board runs."""

from __future__ import annotations

import contextlib
import platform
from importlib import metadata

_PACKAGES = {"tunebook": "tunebook", "tvm": "apache-tvm", "ffi": "apache-tvm-ffi"}


def installed_versions() -> dict[str, str]:
    """Versions by name: tunebook, tvm, ffi, python, kernel, os; those that can be told."""
    found = {"python": platform.python_version(), "kernel": platform.release()}
    for name, package in _PACKAGES.items():
        try:
            found[name] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    with contextlib.suppress(OSError):
        found["os"] = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    return found
