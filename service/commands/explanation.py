"""Everything that is stored near what a look-up missed, for whoever asks why."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.lookup.near_schedules import NearSchedules
from tunebook.cache.misses import Miss
from tunebook.cache.records import Model
from tunebook.cache.remote.miss_documents import DifferenceDocument
from tunebook.cache.store import Store
from tunebook.service.output import show_seconds

# Of each near key the fastest record is shown.
_RECORDS = 1


class NearDocument(BaseModel):
    """A stored key near one that missed, as machines read it; `seconds` is its fastest record's,
    which need not be verified."""

    reason: str
    key: str
    differences: list[DifferenceDocument]
    record: int
    seconds: float | None


Near = dict[ScheduleKey, tuple[NearSchedules, ...]]


def near_misses(store: Store, model: Model, misses: Sequence[Miss], *, emulated: bool) -> Near:
    """What is near each miss of a model, nearest first."""
    return {
        miss.key: store.near(miss.key, emulated=emulated, hints=model.hints, limit=_RECORDS)
        for miss in misses
    }


def near_documents(near: Sequence[NearSchedules]) -> list[NearDocument]:
    """What is near one miss as machines read it."""
    return [
        NearDocument(
            reason=one.reason.value,
            key=str(one.key),
            differences=[DifferenceDocument(**vars(difference)) for difference in one.differences],
            record=record.id,
            seconds=record.measurement.seconds,
        )
        for one in near
        for record in one.records
    ]


def show_near(near: Near) -> str:
    """What is near each miss, in words."""
    lines = []
    for key, found in near.items():
        lines.append(f"near {key}:")
        for one in found:
            lines.append(f"  {one.reason.value}: {one.key}")
            for record in one.records:
                lines.append(
                    f"      record {record.id}, {show_seconds(record.measurement.seconds)}"
                )
            lines += [f"      {difference}" for difference in one.differences]
        if not found:
            lines.append("  nothing")
    return "\n".join(lines)
