"""A database as the first schema made it, with one verified record that is served."""

from __future__ import annotations

import zlib
from pathlib import Path

from alembic import command
from alembic.config import Config
from cache_samples import A76, COMPILER, TRACE, model_of
from sqlalchemy import Connection, create_engine, text

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import Workload

OLD_KEY = ScheduleKey("relu", "f32[8] -> f32[8]", A76, COMPILER, "00000000000000aa")
OLD_MODEL = model_of([Workload(OLD_KEY.workload, "tir", 8.0)])

_ROWS = (
    "INSERT INTO targets (id, text) VALUES (1, :target)",
    "INSERT INTO workloads (id, op, buffers, compiler, hash, dtypes, shapes, elements, flops, tir) "
    "VALUES (1, :op, :buffers, :compiler, :hash, 'f32 -> f32', '8 -> 8', 4, 8, :tir)",
    "INSERT INTO records (id, workload_id, target_id, module_hash, emulated, verified, seconds, "
    "error_text, source, board, board_class, board_seconds, board_state, run_seconds, created_at, "
    "feature_columns, trace) VALUES (1, 1, 1, 'scheduled', FALSE, TRUE, 0.001, '', 'search', "
    "'board-1', 'pi', 0, '{}', '[0.001]', '2026-11-01 00:00:00', 0, :trace)",
    "INSERT INTO schedules (workload_id, target_id, emulated, record_id, seconds) "
    "VALUES (1, 1, FALSE, 1, 0.001)",
    "INSERT INTO models (id, digest, shapes, target_id, compiler, choices, created_at) "
    "VALUES (1, :digest, :shapes, 1, :compiler, '', '2026-11-01 00:00:00')",
    "INSERT INTO model_tasks (model_id, position, workload_id, weight) VALUES (1, 0, 1, 1)",
)


def first_version(path: Path) -> Path:
    """Makes the file, and gives its path."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        _create(connection)
        values = {
            "target": A76,
            "op": OLD_KEY.op,
            "buffers": OLD_KEY.buffers,
            "compiler": COMPILER,
            "hash": OLD_KEY.workload_hash,
            "tir": zlib.compress(b"tir"),
            "trace": TRACE,
            "digest": OLD_MODEL.digest,
            "shapes": OLD_MODEL.shapes,
        }
        for statement in _ROWS:
            connection.execute(text(statement), values)
    engine.dispose()
    return path


def _create(connection: Connection) -> None:
    config = Config()
    config.set_main_option("script_location", "tunebook.cache:migrations")
    config.attributes["connection"] = connection
    command.upgrade(config, "0001")
