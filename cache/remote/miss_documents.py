"""A miss as machines read it, from the command line and over HTTP alike."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.misses import Difference, Miss, MissReason


class DifferenceDocument(BaseModel):
    """A field in which the wanted and the nearest key differ; None where one does not have it,
    a list for what is one."""

    field: str
    wanted: Any
    nearest: Any


class MissDocument(BaseModel):
    """A miss as machines read it."""

    key: str
    reason: str
    nearest: str | None
    differences: list[DifferenceDocument]
    explanation: str
    mending_command: str


def miss_document(miss: Miss) -> MissDocument:
    """A miss as machines read it."""
    return MissDocument(
        key=str(miss.key),
        reason=miss.reason.value,
        nearest=None if miss.nearest is None else str(miss.nearest),
        differences=[DifferenceDocument(**vars(one)) for one in miss.differences],
        explanation=miss.explanation,
        mending_command=miss.mending_command,
    )


def miss_of(document: MissDocument) -> Miss:
    """What a document says. Raises ValueError for one that says it in another form."""
    return Miss(
        key=ScheduleKey.parse(document.key),
        reason=MissReason(document.reason),
        nearest=None if document.nearest is None else ScheduleKey.parse(document.nearest),
        differences=tuple(
            Difference(one.field, one.wanted, one.nearest) for one in document.differences
        ),
        explanation=document.explanation,
        mending_command=document.mending_command,
    )
