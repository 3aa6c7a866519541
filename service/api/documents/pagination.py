"""Lists a page at a time: a cursor says where the next page goes on."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Annotated, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel, Field

from tunebook.service.api.problems.problems import Problem

Item = TypeVar("Item")

DEFAULT_LIMIT = 50
LARGEST_LIMIT = 500
# No database counts further; a larger number is none that a list gave.
_LARGEST_NUMBER = 2**31 - 1

Limit = Annotated[
    int, Query(ge=1, le=LARGEST_LIMIT, description="How many items a page holds at most.")
]
Cursor = Annotated[
    str | None,
    Query(
        max_length=200,
        description="`next` of the page before; with the same filters. Left out: the first page.",
    ),
]


class Page(BaseModel, Generic[Item]):
    """Some items of a list, in its order."""

    items: list[Item]
    next: str | None = Field(
        description="The `cursor` of the next page; null where this one is the last."
    )


class Cursors:
    """The cursors of one list: `places` whole numbers that say where its last item stands.

    They are opaque to clients, and one of another list is refused.
    """

    def __init__(self, name: str, places: int = 1) -> None:
        self._name = name
        self._places = places

    def encode(self, *place: int) -> str:
        """The cursor that goes on behind an item at this place."""
        text = ":".join([self._name, *map(str, place)])
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    def decode(self, cursor: str | None) -> tuple[int, ...] | None:
        """The place behind which a page begins; None for the first page. Raises a problem of type
        `usage` for what is no cursor of this list."""
        if cursor is None:
            return None
        try:
            padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
            name, *numbers = base64.b64decode(padded, b"-_", validate=True).decode().split(":")
        except (binascii.Error, ValueError):
            raise self._refused(cursor) from None
        if (
            name != self._name
            or len(numbers) != self._places
            or not all(one.isascii() and one.isdigit() and len(one) <= 10 for one in numbers)
        ):
            raise self._refused(cursor)
        place = tuple(map(int, numbers))
        if max(place) > _LARGEST_NUMBER:
            raise self._refused(cursor)
        return place

    def page(
        self,
        found: Sequence[Item],
        limit: int,
        place: Callable[[Item], tuple[int, ...]],
    ) -> tuple[Sequence[Item], str | None]:
        """Of one item more than a page holds: those of the page, and the cursor of the next one."""
        if len(found) <= limit:
            return found, None
        return found[:limit], self.encode(*place(found[limit - 1]))

    def _refused(self, cursor: str) -> Problem:
        return Problem(
            "usage",
            f"the cursor {cursor!r} is none of the list of {self._name}; give `next` of the page "
            f"before, or none to begin with the first page",
        )
