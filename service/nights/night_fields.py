"""What stands in the fields of a night's file, and how each is read."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from datetime import time as TimeOfDay
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, InstanceOf, PositiveInt, StringConstraints

from tunebook.cache.errors import UsageError
from tunebook.service.durations import parse_duration


def _seconds(value: Any) -> float:
    """Reads a duration: `90s`, `10m`, `8h`, or a number of seconds."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError("a duration is a text such as 90s, 10m or 8h")
    try:
        return parse_duration(str(value))
    except UsageError as error:
        raise ValueError(str(error)) from None


def _deadline(value: Any) -> TimeOfDay | datetime:
    """Reads a time of day (`06:00`), or a date with a time; without an offset they are local."""
    if isinstance(value, (datetime, TimeOfDay)):
        return value
    if isinstance(value, str):
        text = value.strip()
        # Python 3.10 does not read the letter.
        text = f"{text[:-1]}+00:00" if text.endswith(("Z", "z")) else text
        for read in (TimeOfDay.fromisoformat, datetime.fromisoformat):
            with suppress(ValueError):
                return read(text)
    raise ValueError(
        "a deadline is a time of day such as 06:00, or a date and time such as 2027-01-31T06:00"
    )


def _one_or_several(value: Any) -> Any:
    """One table of shapes may stand where a list of them may."""
    return [value] if isinstance(value, dict) else value


def _path(value: Any) -> Path:
    if not isinstance(value, str) or not value:
        raise ValueError("a path is a text that is not empty")
    return Path(value)


Seconds = Annotated[float, BeforeValidator(_seconds)]
# Read before: what passes is one of the two.
Deadline = Annotated[InstanceOf[TimeOfDay] | InstanceOf[datetime], BeforeValidator(_deadline)]
# Names are shown in lines.
Name = Annotated[
    str,
    StringConstraints(
        strip_whitespace=True, min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$"
    ),
]
TargetSpelling = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Priority = Annotated[float, Field(gt=0, le=1e6)]
Share = Annotated[float, Field(ge=0, le=1)]
# Shapes are stored as text that spaces separate.
InputName = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x20\x7f]+$")]
InputShapes = dict[InputName, Annotated[tuple[PositiveInt, ...], Field(min_length=1)]]
ShapeSets = Annotated[
    tuple[InputShapes, ...], BeforeValidator(_one_or_several), Field(min_length=1)
]
ModelPath = Annotated[Path, BeforeValidator(_path)]
