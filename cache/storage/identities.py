"""Rows that stand for a name: targets and workloads, found or added."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import Select, Table, exists, literal, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from tunebook.cache.buffers import dtypes_text, log_elements, parse_buffers, shapes_text
from tunebook.cache.errors import DatabaseError
from tunebook.cache.keys import ScheduleKey, WorkloadKey
from tunebook.cache.likeness import Likeness
from tunebook.cache.records import Workload
from tunebook.cache.storage.tables import Base, ModelTaskRow, TargetRow, WorkloadRow

# What `key_of` and `workload_key_of` need of a workload.
KEY_COLUMNS = (WorkloadRow.op, WorkloadRow.buffers, WorkloadRow.compiler, WorkloadRow.hash)
# What `likeness_of` needs of one.
LIKENESS_COLUMNS = (
    WorkloadRow.structure,
    WorkloadRow.anchor,
    WorkloadRow.attributes,
    WorkloadRow.constants,
)
# SQLite before 3.32 takes 999 parameters in one statement, and one may need each twice.
CHUNK = 400


def insert_missing(session: Session, model: type[Base], values: dict[str, Any]) -> bool:
    """Inserts a row unless a unique key has it already; gives whether it was inserted."""
    statement = insert_or_nothing(session, model).values(**values).returning(literal(1))
    return session.connection().execute(statement).first() is not None


def insert_or_nothing(session: Session, model: type[Base]) -> Any:
    """A statement that inserts rows unless a unique key has them already. A row count is not told
    by every driver where nothing conflicts: let it return something of what was inserted."""
    return _insert(session, model).on_conflict_do_nothing()


def insert_or_update(
    session: Session,
    model: type[Base],
    identity: Sequence[str],
    change: Callable[[Any], dict[str, Any]],
) -> Any:
    """A statement that inserts rows, or changes those that are there by the columns of `identity`;
    `change` makes new values of the row that was to be inserted."""
    statement = _insert(session, model)
    return statement.on_conflict_do_update(
        index_elements=list(identity), set_=change(statement.excluded)
    )


def _insert(session: Session, model: type[Base]) -> Any:
    table = model.__table__
    assert isinstance(table, Table)
    dialect = session.get_bind().dialect.name
    insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
    return insert(table)


def find_target(session: Session, text: str) -> int | None:
    return session.scalar(select(TargetRow.id).where(TargetRow.text == text))


def ensure_target(session: Session, text: str, features: str = "") -> int:
    """The target's id; `features` is noted where it was not known yet."""
    found = find_target(session, text)
    if found is None:
        insert_missing(session, TargetRow, {"text": text, "features": features})
        found = session.execute(select(TargetRow.id).where(TargetRow.text == text)).scalar_one()
    if features:
        session.execute(
            update(TargetRow)
            .where(TargetRow.id == found, TargetRow.features != features)
            .values(features=features)
        )
    return found


def find_workload(session: Session, key: WorkloadKey) -> int | None:
    found: int | None = session.scalar(_workload_ids(key))
    return found


def ensure_workload(session: Session, workload: Workload) -> int:
    """The workload's id; its likeness is noted where it was not known yet. Raises ValueError when
    the key's `buffers` cannot be read."""
    found = find_workload(session, workload.key)
    imported = _imported(session, workload.key)
    if imported is not None and found in (None, imported):
        session.execute(
            update(WorkloadRow).where(WorkloadRow.id == imported).values(**_described(workload))
        )
        return imported
    if found is None:
        return insert_workload(session, workload)
    _note_likeness(session, found, workload.likeness)
    return found


def insert_workload(session: Session, workload: Workload) -> int:
    """Stores a workload unless there is one of its key; gives its id."""
    key = workload.key
    buffers = parse_buffers(key.buffers)
    values = {
        **_described(workload),
        "buffers": key.buffers,
        "compiler": key.compiler,
        "hash": key.hash,
        "dtypes": dtypes_text(buffers),
        "shapes": shapes_text(buffers),
        "elements": log_elements(buffers),
    }
    insert_missing(session, WorkloadRow, values)
    return int(session.execute(_workload_ids(key)).scalar_one())


def _described(workload: Workload) -> dict[str, Any]:
    """What whoever has the program says of it; the rest of a row follows from what it is."""
    return {
        "op": workload.key.op,
        "flops": workload.flops,
        "tir": zlib.compress(workload.tir.encode()),
        **asdict(workload.likeness),
    }


def _imported(session: Session, key: WorkloadKey) -> int | None:
    """The id of a workload that was imported and is now split out of a model.

    No model has it yet: its op was read off the program, where the model may say otherwise, and
    the program is a stranger's, which no longer needs to be trusted: an equal hash is no proof.
    """
    has_model = exists().where(ModelTaskRow.workload_id == WorkloadRow.id)
    found: int | None = session.scalars(
        select(WorkloadRow.id)
        .where(
            WorkloadRow.hash == key.hash,
            WorkloadRow.compiler == key.compiler,
            WorkloadRow.buffers == key.buffers,
            ~has_model,
        )
        .order_by(WorkloadRow.op != key.op, WorkloadRow.id)
        .limit(1)
    ).first()
    return found


def _note_likeness(session: Session, workload_id: int, likeness: Likeness) -> None:
    known = {name: text for name, text in asdict(likeness).items() if text}
    if known:
        session.execute(
            update(WorkloadRow)
            .where(WorkloadRow.id == workload_id, WorkloadRow.structure == "")
            .values(**known)
        )


def find_workload_ids(session: Session, hashes: Sequence[str]) -> dict[WorkloadKey, int]:
    """The ids of all stored workloads with these hashes."""
    found = {}
    for start in range(0, len(hashes), CHUNK):
        some = WorkloadRow.hash.in_(hashes[start : start + CHUNK])
        for row in session.execute(select(WorkloadRow.id, *KEY_COLUMNS).where(some)):
            found[workload_key_of(row)] = row.id
    return found


def find_ids(session: Session, key: ScheduleKey) -> tuple[int, int] | None:
    """The ids of a key's workload and target, or None when either was never stored."""
    workload = find_workload(session, key.workload)
    target = find_target(session, key.target)
    return None if workload is None or target is None else (workload, target)


def read_workload(session: Session, key: WorkloadKey) -> Workload:
    """Raises DatabaseError for a workload that was never stored."""
    found = session.execute(
        select(WorkloadRow).where(WorkloadRow.id == _workload_ids(key).scalar_subquery())
    ).scalar_one_or_none()
    if found is None:
        raise DatabaseError(
            f"the workload {key.op} {key.hash} is not stored; split its model with this database"
        )
    return workload_of(found)


def workload_of(row: WorkloadRow) -> Workload:
    """What a row says of a workload. Raises DatabaseError where its program is damaged."""
    return Workload(
        key=workload_key_of(row),
        tir=_tir_of(row),
        flops=row.flops,
        likeness=likeness_of(row),
    )


def likeness_of(row: Any) -> Likeness:
    """The likeness from anything with its columns."""
    return Likeness(row.structure, row.anchor, row.attributes, row.constants)


def _tir_of(row: WorkloadRow) -> str:
    try:
        return zlib.decompress(row.tir).decode()
    except (zlib.error, UnicodeDecodeError, TypeError):  # SQLite stores any type in any column
        raise DatabaseError(
            f"the stored program of the workload {row.op} {row.hash} is damaged; restore the "
            f"database from a backup, or split its model again with another --db"
        ) from None


def workload_key_of(row: Any) -> WorkloadKey:
    """The workload's key from anything with its columns."""
    return WorkloadKey(row.op, row.buffers, row.compiler, row.hash)


def key_of(row: Any, target: str) -> ScheduleKey:
    """The key from anything with the workload's columns."""
    return ScheduleKey(row.op, row.buffers, target, row.compiler, row.hash)


def _workload_ids(key: WorkloadKey) -> Select[Any]:
    return select(WorkloadRow.id).where(
        WorkloadRow.hash == key.hash,
        WorkloadRow.compiler == key.compiler,
        WorkloadRow.op == key.op,
        WorkloadRow.buffers == key.buffers,
    )
