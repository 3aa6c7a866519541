"""What the system tells in files of its own."""

from __future__ import annotations

from pathlib import Path


def text_of(path: Path) -> str | None:
    """What a file says; None where it is not there or says nothing."""
    try:
        return path.read_text().strip() or None
    except OSError:
        return None


def number_of(path: Path) -> int | None:
    """The whole number that a file holds; None where it holds none."""
    try:
        return int(text_of(path) or "")
    except ValueError:
        return None
