"""Records as lists show them, newest first, and one of them with all that is known of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import false, func, select, text
from sqlalchemy.orm import Session

from tunebook.cache.errors import NotFoundError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import ErrorClass, Source
from tunebook.cache.storage.identities import KEY_COLUMNS, find_ids, find_target, key_of
from tunebook.cache.storage.tables import (
    OriginRow,
    RecordRow,
    RepeatRow,
    ScheduleRow,
    TargetRow,
    WorkloadRow,
)
from tunebook.cache.stored.suspect_records import is_suspect


@dataclass(frozen=True)
class RecordFilter:
    """Which records a list holds; None leaves out nothing. `failed` asks for any error or none."""

    key: ScheduleKey | None = None
    target: str | None = None
    op: str | None = None
    error: ErrorClass | None = None
    failed: bool | None = None
    verified: bool | None = None
    source: Source | None = None
    suspect: bool | None = None

    @property
    def asks_for_what_is_rare(self) -> bool:
        """Whether an index has but few records of the kind that is asked for."""
        unsearched = self.source not in (None, Source.SEARCH)
        rare = self.verified is True or self.suspect is True
        return self.error is not None or rare or unsearched


@dataclass(frozen=True)
class ListedRecord:
    """A record without what is large. `seconds` is None for a failure. `suspect`: its board had
    drifted by then, and none has measured it again."""

    id: int
    key: ScheduleKey
    module_hash: str
    source: Source
    verified: bool
    suspect: bool
    emulated: bool
    seconds: float | None
    error: ErrorClass | None
    board: str
    board_class: str
    board_seconds: float
    created_at: datetime


@dataclass(frozen=True)
class DetailedRecord:
    """A record with its trace, what its board was like, and where it came from.

    `repeats` counts further measurements of the same module; `served`: a look-up of its key would
    be answered with it.
    """

    listed: ListedRecord
    trace: str
    run_seconds: tuple[float, ...]
    error_text: str
    board_state: dict[str, Any]
    origin: str
    served: bool
    repeats: int


# What lists read: none of the two large columns, which SQLite stores last.
_COLUMNS = (
    RecordRow.id,
    RecordRow.module_hash,
    RecordRow.source,
    RecordRow.verified,
    is_suspect().label("suspect"),
    RecordRow.emulated,
    RecordRow.seconds,
    RecordRow.error,
    RecordRow.board,
    RecordRow.board_class,
    RecordRow.board_seconds,
    RecordRow.created_at,
    TargetRow.text.label("target"),
    *KEY_COLUMNS,
)


def listed_records(
    session: Session, wanted: RecordFilter, before: int | None, limit: int
) -> tuple[ListedRecord, ...]:
    """See Catalogue.records."""
    # The ids first, by an index that holds what is asked for; a page of rows after that. Where
    # many parts of an index are read, their ids are sorted: a database would rather go through all
    # records in the order of ids until it finds a page of them.
    many = wanted.key is not None or wanted.op is not None or wanted.failed
    number = RecordRow.id + 0 if many else RecordRow.id
    ids = _narrowed(session, select(RecordRow.id), wanted)
    if before is not None:
        ids = ids.where(number < before)
    page = ids.order_by(number.desc()).limit(limit).subquery()
    statement = (
        select(*_COLUMNS)
        .join(page, page.c.id == RecordRow.id)
        .join(WorkloadRow, WorkloadRow.id == RecordRow.workload_id)
        .join(TargetRow, TargetRow.id == RecordRow.target_id)
        .order_by(RecordRow.id.desc())
    )
    return tuple(_listed(row) for row in session.execute(statement))


def detailed_record(session: Session, record_id: int) -> DetailedRecord:
    """See Catalogue.record."""
    row = session.execute(
        select(
            *_COLUMNS,
            RecordRow.trace,
            RecordRow.run_seconds,
            RecordRow.error_text,
            RecordRow.board_state,
            OriginRow.text.label("origin"),
            ScheduleRow.record_id.label("served"),
        )
        .join(WorkloadRow, WorkloadRow.id == RecordRow.workload_id)
        .join(TargetRow, TargetRow.id == RecordRow.target_id)
        .outerjoin(OriginRow, OriginRow.record_id == RecordRow.id)
        .outerjoin(
            ScheduleRow,
            (ScheduleRow.workload_id == RecordRow.workload_id)
            & (ScheduleRow.target_id == RecordRow.target_id)
            & (ScheduleRow.emulated == RecordRow.emulated)
            & (ScheduleRow.record_id == RecordRow.id),
        )
        .where(RecordRow.id == record_id)
    ).one_or_none()
    if row is None:
        raise NotFoundError(f"there is no record {record_id}; GET /api/v1/records lists them")
    repeats = session.scalar(
        select(func.count()).select_from(RepeatRow).where(RepeatRow.record_id == record_id)
    )
    return DetailedRecord(
        listed=_listed(row),
        trace=row.trace,
        run_seconds=tuple(row.run_seconds),
        error_text=row.error_text,
        board_state=dict(row.board_state),
        origin=row.origin or "",
        served=row.served is not None,
        repeats=repeats or 0,
    )


def _narrowed(session: Session, statement: Any, wanted: RecordFilter) -> Any:
    """A select of records with what the filter asks for (SQLAlchemy 2.0 and 2.1 type it apart)."""
    if wanted.key is not None:
        ids = find_ids(session, wanted.key)
        if ids is None:
            return statement.where(false())
        statement = statement.where(RecordRow.workload_id == ids[0], RecordRow.target_id == ids[1])
    if wanted.target is not None:
        target_id = find_target(session, wanted.target)
        if target_id is None:
            return statement.where(false())
        # What is rare of all records is rarer than those of a target.
        target = RecordRow.target_id + 0 if wanted.asks_for_what_is_rare else RecordRow.target_id
        statement = statement.where(target == target_id)
    if wanted.op is not None:
        workloads = select(WorkloadRow.id).where(WorkloadRow.op == wanted.op)
        statement = statement.where(RecordRow.workload_id.in_(workloads))
    if wanted.error is not None:
        statement = statement.where(RecordRow.error == wanted.error.value)
    if wanted.failed is not None:
        failed = RecordRow.error.in_([error.value for error in ErrorClass])
        statement = statement.where(failed if wanted.failed else RecordRow.error.is_(None))
    if wanted.verified is not None:
        is_verified = RecordRow.verified if wanted.verified else ~RecordRow.verified
        statement = statement.where(is_verified)
    if wanted.suspect is not None:
        statement = statement.where(RecordRow.suspect if wanted.suspect else ~is_suspect())
    if wanted.source is not None:
        statement = statement.where(RecordRow.source == wanted.source.value)
        if wanted.source is not Source.SEARCH:
            # Said as the index of these says it.
            statement = statement.where(text("records.source <> 'search'"))
    return statement


def _listed(row: Any) -> ListedRecord:
    return ListedRecord(
        id=row.id,
        key=key_of(row, row.target),
        module_hash=row.module_hash,
        source=Source(row.source),
        verified=row.verified,
        suspect=bool(row.suspect),
        emulated=row.emulated,
        seconds=row.seconds,
        error=None if row.error is None else ErrorClass(row.error),
        board=row.board,
        board_class=row.board_class,
        board_seconds=row.board_seconds,
        created_at=row.created_at,
    )
