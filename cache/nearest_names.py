"""The nearest known name to one that is not known, for error messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?`, or nothing where no known name is near."""
    nearest = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""
