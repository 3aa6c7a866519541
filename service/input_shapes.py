"""Shapes of a model's inputs, as they are given and as they are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field, StringConstraints

from tunebook.service.given_documents import at_most

InputName = Annotated[
    # Shapes are stored as text that is split at whitespace of any kind.
    str,
    StringConstraints(min_length=1, max_length=200, pattern=r"^[^\s\x00-\x1f\x7f]+$"),
]
Dimensions = Annotated[
    list[Annotated[int, Field(ge=1, le=2**31 - 1)]], Field(min_length=1, max_length=16)
]
Shapes = Annotated[dict[InputName, Dimensions], Field(max_length=64), at_most(64)]


def shapes_text(shapes: Mapping[str, Sequence[int]]) -> str:
    """Shapes as they are stored: `a=1,3 b=2,2`, sorted by name."""
    return " ".join(f"{name}={','.join(map(str, shapes[name]))}" for name in sorted(shapes))


def read_shapes(text: str) -> dict[str, list[int]]:
    """Reads what `shapes_text` gives."""
    shapes = {}
    for one in text.split():
        name, _, sizes = one.rpartition("=")
        shapes[name] = [int(size) for size in sizes.split(",")]
    return shapes
