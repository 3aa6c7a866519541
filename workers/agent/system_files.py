"""What the kernel tells in files: one value a file, and none where there is no such file."""

from __future__ import annotations

from pathlib import Path


def read_text(path: Path) -> str | None:
    """A file's text without what surrounds it; None where it cannot be read or is empty."""
    try:
        # A device tree ends its texts with a zero.
        return path.read_text(errors="replace").strip("\0 \t\r\n") or None
    except OSError:
        return None


def read_number(path: Path) -> int | None:
    """A file's whole number, None where it holds none."""
    try:
        return int(read_text(path) or "")
    except ValueError:
        return None
