"""What a line of the log says of the key that it is about, beside its text."""

from __future__ import annotations

from tunebook.cache.keys import ScheduleKey


def members_of(key: ScheduleKey) -> dict[str, object]:
    """The members by which lines about a key are found."""
    return {"op": key.op, "buffers": key.buffers, "target": key.target}
