"""Databases as each released schema made them, with a row in every table: among others one verified
record that is served."""

from __future__ import annotations

import zlib
from datetime import datetime, timezone
from typing import Any

from alembic import command
from alembic.config import Config
from cache_samples import A76, COMPILER, TRACE, model_of
from sqlalchemy import Column, Connection, MetaData, Table, create_engine, text
from sqlalchemy.types import JSON, Boolean, DateTime, Float, Integer, LargeBinary

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import Workload
from tunebook.cache.storage.database import parse_url

OLD_KEY = ScheduleKey("relu", "f32[8] -> f32[8]", A76, COMPILER, "00000000000000aa")
OLD_MODEL = model_of([Workload(OLD_KEY.workload, "tir", 8.0)])

Rows = dict[str, dict[str, Any]]

# What some columns hold where it matters; all others hold something of their type.
_GIVEN: Rows = {
    "targets": {"text": A76, "features": ""},
    "workloads": {
        "op": OLD_KEY.op,
        "buffers": OLD_KEY.buffers,
        "compiler": COMPILER,
        "hash": OLD_KEY.workload_hash,
        "dtypes": "f32 -> f32",
        "shapes": "8 -> 8",
        "tir": zlib.compress(b"tir"),
        **dict.fromkeys(("structure", "anchor", "attributes", "constants"), ""),
    },
    "records": {
        "verified": True,
        "seconds": 0.001,
        "error": None,
        "source": "search",
        "board_class": "pi",
        "run_seconds": [0.001],
        "trace": TRACE,
        "features": None,
        "feature_columns": 0,
    },
    "schedules": {"seconds": 0.001},
    "origins": {"text": "taken over"},
    "models": {
        "digest": OLD_MODEL.digest,
        "shapes": OLD_MODEL.shapes,
        "compiler": COMPILER,
        "choices": "",
    },
    "model_tasks": {"position": 0},
    "budgets": {
        "digest": OLD_MODEL.digest,
        "shapes": OLD_MODEL.shapes,
        "compiler": COMPILER,
        "name": "",
        "trial_limit": 9,
        **dict.fromkeys(("board_seconds_limit", "seconds_limit", "deadline")),
    },
    "jobs": {"state": "done", "board_class": "pi", "submitted": False, "stage": "search"},
    "tasks": {"exhausted": False},
    "rounds": {"state": "finished", "worker": None, "holder": None},
    "slots": {"number": 0, "module_hash": "text", "charged": True, "source": "search"},
    "repeats": {"error": None},
    "workers": {"boards": []},
    "tokens": {"role": "read", "revoked_at": None},
}
_MOMENT = datetime(2026, 11, 1, tzinfo=timezone.utc)
_VERSIONS = "alembic_version"


def released(url: str, revision: str) -> Rows:
    """Makes an empty database one of that schema; gives the row of each table."""
    engine = create_engine(parse_url(url))
    try:
        with engine.begin() as connection:
            _create(connection, revision)
            rows = {table.name: _fill(connection, table) for table in _tables(connection)}
    finally:
        engine.dispose()
    return rows


def rows_now(url: str) -> Rows:
    """The first row of each table."""
    engine = create_engine(parse_url(url))
    try:
        with engine.connect() as connection:
            found = {
                table.name: connection.execute(table.select()).mappings().first()
                for table in _tables(connection)
            }
    finally:
        engine.dispose()
    return {name: _plain(row) for name, row in found.items() if row is not None}


def _create(connection: Connection, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", "tunebook.cache:migrations")
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _tables(connection: Connection) -> list[Table]:
    """Those that others refer to first."""
    metadata = MetaData()
    metadata.reflect(connection)
    return [table for table in metadata.sorted_tables if table.name != _VERSIONS]


def _fill(connection: Connection, table: Table) -> dict[str, Any]:
    given = _GIVEN.get(table.name, {})
    row = {column.name: given.get(column.name, _value(column)) for column in table.columns}
    connection.execute(table.insert().values(row))
    if connection.dialect.name == "postgresql" and table.c.get("id") is not None:
        # As if the row had asked for its number.
        sequence = f"pg_get_serial_sequence('{table.name}', 'id')"
        connection.execute(text(f"SELECT setval({sequence}, 1)"))
    return _plain(row)


def _value(column: Column[Any]) -> Any:
    """The number 1 for what counts or refers, so that each row refers to the first of another."""
    values: tuple[tuple[type[Any], Any], ...] = (
        (Boolean, False),
        (Integer, 1),
        (Float, 1.5),
        (DateTime, _MOMENT),
        (JSON, {"a": [1, None, "ü"]}),
        (LargeBinary, b"\0\xff"),
    )
    return next((value for kind, value in values if isinstance(column.type, kind)), "text")


def _plain(row: Any) -> dict[str, Any]:
    """What was stored, whether its moments come back with a zone or in UTC."""
    return {
        name: value.astimezone(timezone.utc).replace(tzinfo=None)
        if isinstance(value, datetime) and value.tzinfo is not None
        else value
        for name, value in row.items()
    }
