"""What becomes of a build whose schedules are missing: an error, or a warning and untuned code."""

from __future__ import annotations

from typing import Literal

from tunebook.cache.errors import UsageError

OnMiss = Literal["error", "warn"]


def check_on_miss(given: str) -> None:
    """Raises UsageError for anything else."""
    if given not in ("error", "warn"):
        raise UsageError(f"on_miss is 'error' or 'warn', not {given!r}")
