"""Types of fields that several documents and queries have."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated

from fastapi import Path
from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from tunebook.cache.errors import UsageError
from tunebook.cache.keys import ScheduleKey
from tunebook.service.given_fields import EXAMPLE_DIGEST, ONE_LINE

_LARGEST_ID = 2**31 - 1


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(timezone.utc)
    except OverflowError:
        raise ValueError("it is out of range") from None


def _only_text(value: object) -> object:
    if not isinstance(value, str | datetime):
        raise ValueError("a moment is a text of ISO 8601, such as 2026-12-01T06:00:00Z")
    return value


def _with_zone(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("it has no offset from UTC; add one, such as Z")
    return moment


Moment = Annotated[datetime, AfterValidator(_in_utc), Field(description="ISO 8601, in UTC.")]
GivenMoment = Annotated[
    datetime,
    BeforeValidator(_only_text),
    AfterValidator(_with_zone),
    AfterValidator(_in_utc),
    Field(description="ISO 8601 with an offset from UTC."),
]
OpText = Annotated[
    str,
    StringConstraints(min_length=1, max_length=2_000, pattern=ONE_LINE),
    Field(description="Fused operators in order, such as `conv2d+add+relu`; the whole of it."),
]
KeyText = Annotated[
    str,
    StringConstraints(min_length=1, max_length=20_000, pattern=ONE_LINE),
    Field(description="A whole key: `op | buffers | target | compiler | workload hash`."),
]
Seconds = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
RowNumber = Annotated[int, Field(ge=1, le=_LARGEST_ID)]
DigestPath = Annotated[
    str,
    Path(
        pattern=r"^[0-9a-f]{64}$",
        description="The SHA-256 of the model's file, 64 hexadecimal digits in lower case.",
        examples=[EXAMPLE_DIGEST],
    ),
]
RowId = Annotated[int, Path(ge=1, le=_LARGEST_ID, description="The number of what is asked for.")]


def parse_key(text: str) -> ScheduleKey:
    """The parts of a key. Raises UsageError for a text that is none."""
    try:
        return ScheduleKey.parse(text)
    except ValueError as error:
        raise UsageError(f"the key cannot be read: {error}") from None
