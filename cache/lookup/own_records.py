"""What became of the records of wanted keys themselves."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.lookup.wanted_keys import WantedKey
from tunebook.cache.records import Source
from tunebook.cache.storage.identities import CHUNK, find_target
from tunebook.cache.storage.tables import RecordRow


@dataclass
class OwnRecords:
    """The records of a key by counts: successful ones of real boards, of emulated ones and imported
    ones, and the failures by their class."""

    real: int = 0
    emulated: int = 0
    imported: int = 0
    failures: Counter[str] = field(default_factory=Counter)


def own_records(session: Session, wanted: Sequence[WantedKey]) -> Mapping[ScheduleKey, OwnRecords]:
    """What became of the records of each key; a key without any has no entry."""
    own: defaultdict[ScheduleKey, OwnRecords] = defaultdict(OwnRecords)
    by_target: defaultdict[str, dict[int, ScheduleKey]] = defaultdict(dict)
    for one in wanted:
        if one.workload_id is not None:
            by_target[one.key.target][one.workload_id] = one.key
    for target, keys in by_target.items():
        target_id = find_target(session, target)
        if target_id is None:
            continue
        ids = list(keys)
        for start in range(0, len(ids), CHUNK):
            _count(session, ids[start : start + CHUNK], target_id, keys, own)
    return own


def _count(
    session: Session,
    workload_ids: Sequence[int],
    target_id: int,
    keys: Mapping[int, ScheduleKey],
    own: defaultdict[ScheduleKey, OwnRecords],
) -> None:
    columns = (RecordRow.workload_id, RecordRow.emulated, RecordRow.error, RecordRow.source)
    rows = session.execute(
        select(*columns, func.count().label("number"))
        # The sum keeps SQLite from reading all records of the target: it knows no numbers of rows.
        .where(RecordRow.workload_id.in_(workload_ids), RecordRow.target_id + 0 == target_id)
        .group_by(*columns)
    )
    for row in rows:
        of_key = own[keys[row.workload_id]]
        if row.error is not None:
            of_key.failures[row.error] += row.number
        elif row.source == Source.IMPORT.value:
            of_key.imported += row.number
        elif row.emulated:
            of_key.emulated += row.number
        else:
            of_key.real += row.number
