"""What boards of one kind have measured of a task: records that were imported are not among it."""

from __future__ import annotations

from collections.abc import Iterable

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import Record, Source
from tunebook.cache.store import Store


def measured_here(store: Store, key: ScheduleKey, *, emulated: bool) -> list[Record]:
    """The records of a key from real boards, or from emulated ones, failures included."""
    return [
        record
        for record in store.records(key)
        if record.measurement.emulated == emulated and record.candidate.source is not Source.IMPORT
    ]


def modules_of(records: Iterable[Record]) -> set[str]:
    """The hashes of their scheduled modules."""
    return {record.candidate.module_hash for record in records}
