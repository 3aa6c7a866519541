"""What a coordinator keeps: jobs that are submitted before they are split, budgets of more than
trials, events, workers, tokens, and what was looked up.

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from tunebook.cache.migrations.submitted_jobs import end_submitted_jobs

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# What a roll-back loses, with what counts it.
LOSSES = (
    ("submitted jobs that were not split yet", "SELECT count(*) FROM jobs WHERE model_id IS NULL"),
    (
        "submitted jobs that are open, which are cancelled",
        "SELECT count(*) FROM jobs WHERE submitted AND state = 'open' AND model_id IS NOT NULL",
    ),
    (
        "budgets of submitted jobs, whose trials go to their models' own",
        "SELECT count(*) FROM budgets WHERE digest IS NULL",
    ),
    ("jobs' events", "SELECT count(*) FROM job_events"),
    ("access tokens", "SELECT count(*) FROM tokens"),
    ("counts of look-ups", "SELECT count(*) FROM lookup_counts"),
    ("missed keys", "SELECT count(*) FROM missed_keys"),
)

_OPEN = "state = 'open'"
_OPEN_COMMANDS = "state = 'open' AND NOT submitted"
_BUDGET_IDENTITY: dict[str, Any] = {
    "digest": sa.String(length=64),
    "shapes": sa.Text(),
    "target_id": sa.Integer(),
    "compiler": sa.String(length=128),
}

_RARE_RECORDS = (
    ("ix_records_failed", ("error", "id"), "error IS NOT NULL", "error IS NOT NULL"),
    ("ix_records_verified", ("id",), "verified = 1", "verified"),
    ("ix_records_unsearched", ("source", "id"), "source <> 'search'", "source <> 'search'"),
)


def _text(name: str, default: str = "", length: int | None = None) -> sa.Column[str]:
    kind = sa.Text() if length is None else sa.String(length=length)
    return sa.Column(name, kind, nullable=False, server_default=default)


def _number(name: str, default: str = "0") -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=False, server_default=default)


def _moment(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def _primary_key(table: str, *columns: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint(*columns, name=op.f(f"pk_{table}"))


def _unique(table: str, *columns: str) -> sa.UniqueConstraint:
    return sa.UniqueConstraint(*columns, name=op.f(f"uq_{table}_{'_'.join(columns)}"))


def _of_job(table: str) -> tuple[sa.Column[int], sa.ForeignKeyConstraint]:
    key = sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f(f"fk_{table}_job_id"))
    return sa.Column("job_id", sa.Integer(), nullable=False), key


def upgrade() -> None:
    _widen_budgets()
    _widen_jobs()
    op.add_column("rounds", sa.Column("seconds", sa.Float(), nullable=True))
    _create_job_tables()
    _create_service_tables()
    _create_lookup_tables()
    _create_list_indexes()


def _widen_budgets() -> None:
    with op.batch_alter_table("budgets") as budgets:
        for name, kind in _BUDGET_IDENTITY.items():
            budgets.alter_column(name, existing_type=kind, nullable=True)
        budgets.add_column(_text("name"))
        budgets.add_column(sa.Column("board_seconds_limit", sa.Float(), nullable=True))
        budgets.add_column(
            sa.Column("used_seconds", sa.Float(), nullable=False, server_default="0")
        )
        budgets.add_column(sa.Column("seconds_limit", sa.Float(), nullable=True))
        budgets.add_column(_moment("deadline", nullable=True))
        budgets.add_column(_moment("created_at", nullable=True))
    op.create_index("ix_budgets_name", "budgets", ["name"])


def _widen_jobs() -> None:
    op.drop_index("uq_jobs_open", "jobs")
    with op.batch_alter_table("jobs") as jobs:
        jobs.alter_column("model_id", existing_type=sa.Integer(), nullable=True)
        jobs.add_column(
            sa.Column("submitted", sa.Boolean(), nullable=False, server_default=sa.false())
        )
        jobs.add_column(_text("digest", length=64))
        for name in ("shapes", "target", "choices", "name"):
            jobs.add_column(_text(name))
        jobs.add_column(sa.Column("priority", sa.Float(), nullable=False, server_default="1"))
        jobs.add_column(_text("stage", "search", 16))
        jobs.add_column(_text("log"))
        jobs.add_column(_number("epoch"))
        jobs.add_column(_number("beat"))
        jobs.add_column(sa.Column("worker", sa.Text(), nullable=True))
        jobs.add_column(sa.Column("holder", sa.Text(), nullable=True))
        jobs.add_column(_number("lost_workers"))
    op.create_index(
        "uq_jobs_open",
        "jobs",
        ["model_id", "board_class", "emulated"],
        unique=True,
        sqlite_where=sa.text(_OPEN_COMMANDS),
        postgresql_where=sa.text(_OPEN_COMMANDS),
    )
    op.create_index("ix_jobs_state", "jobs", ["state", "stage"])
    op.create_index("ix_jobs_budget", "jobs", ["budget_id"])
    op.create_index("ix_jobs_model", "jobs", ["model_id", "board_class"])


def _create_job_tables() -> None:
    op.create_table(
        "job_event_heads",
        *_of_job("job_event_heads"),
        _number("last"),
        _primary_key("job_event_heads", "job_id"),
    )
    op.create_table(
        "job_events",
        *_of_job("job_events"),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        _moment("created_at"),
        _primary_key("job_events", "job_id", "number"),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("owner", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("body_hash", sa.String(length=64), nullable=False),
        sa.Column("resource", sa.String(length=64), nullable=False),
        _moment("created_at"),
        _primary_key("idempotency_keys", "owner", "key"),
    )


def _create_service_tables() -> None:
    op.create_table(
        "workers",
        sa.Column("name", sa.String(length=255), nullable=False),
        _text("host"),
        _text("holder"),
        _number("beat"),
        sa.Column("boards", sa.JSON(), nullable=False),
        _text("activity"),
        _text("compiler", length=128),
        _moment("started_at"),
        _primary_key("workers", "name"),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("prefix", sa.String(length=32), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        _text("board"),
        _moment("created_at"),
        _moment("revoked_at", nullable=True),
        _primary_key("tokens", "id"),
        _unique("tokens", "sha256"),
    )
    op.create_table(
        "sessions",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("token_id", sa.Integer(), nullable=False),
        _moment("created_at"),
        _moment("expires_at"),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], name=op.f("fk_sessions_token_id")),
        _primary_key("sessions", "sha256"),
    )
    op.create_table(
        "revisions",
        sa.Column("name", sa.String(length=32), nullable=False),
        _number("number"),
        _primary_key("revisions", "name"),
    )


def _create_lookup_tables() -> None:
    op.create_table(
        "lookup_counts",
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("minute", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("pipeline", sa.String(length=64), nullable=False),
        sa.Column("outcome", sa.String(length=32), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        _primary_key("lookup_counts", "target", "minute", "pipeline", "outcome"),
    )
    op.create_index("ix_lookup_counts_minute", "lookup_counts", ["minute"])
    op.create_table(
        "missed_keys",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key_hash", sa.String(length=64), nullable=False),
        sa.Column("pipeline", sa.String(length=64), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=False),
        _text("nearest"),
        sa.Column("differences", sa.JSON(), nullable=False),
        sa.Column("explanation", sa.Text(), nullable=False),
        sa.Column("mending_command", sa.Text(), nullable=False),
        _number("count"),
        _moment("first_at"),
        _moment("last_at"),
        _primary_key("missed_keys", "id"),
        _unique("missed_keys", "key_hash", "pipeline"),
    )
    op.create_index("ix_missed_keys_newest", "missed_keys", ["last_at"])


def _create_list_indexes() -> None:
    """For lists of what there is: of records by what is rare of them, and of one target."""
    for name, columns, sqlite, postgresql in _RARE_RECORDS:
        op.create_index(
            name,
            "records",
            list(columns),
            sqlite_where=sa.text(sqlite),
            postgresql_where=sa.text(postgresql),
        )
    op.create_index("ix_schedules_target", "schedules", ["target_id", "workload_id", "emulated"])
    op.create_index("ix_models_target", "models", ["target_id", "digest"])


def downgrade() -> None:
    op.drop_index("ix_models_target", "models")
    op.drop_index("ix_schedules_target", "schedules")
    for name, *_ in _RARE_RECORDS:
        op.drop_index(name, "records")
    for table in (
        "missed_keys",
        "lookup_counts",
        "revisions",
        "sessions",
        "tokens",
        "workers",
        "idempotency_keys",
        "job_events",
        "job_event_heads",
    ):
        op.drop_table(table)
    end_submitted_jobs(op.get_bind())
    op.drop_column("rounds", "seconds")
    _narrow_jobs()
    _narrow_budgets()


def _narrow_jobs() -> None:
    op.drop_index("ix_jobs_model", "jobs")
    op.drop_index("ix_jobs_budget", "jobs")
    op.drop_index("ix_jobs_state", "jobs")
    op.drop_index("uq_jobs_open", "jobs")
    with op.batch_alter_table("jobs") as jobs:
        for name in ("lost_workers", "holder", "worker", "beat", "epoch"):
            jobs.drop_column(name)
        for name in ("log", "stage", "priority"):
            jobs.drop_column(name)
        for name in ("name", "choices", "target", "shapes", "digest", "submitted"):
            jobs.drop_column(name)
        jobs.alter_column("model_id", existing_type=sa.Integer(), nullable=False)
    op.create_index(
        "uq_jobs_open",
        "jobs",
        ["model_id", "board_class", "emulated"],
        unique=True,
        sqlite_where=sa.text(_OPEN),
        postgresql_where=sa.text(_OPEN),
    )


def _narrow_budgets() -> None:
    op.drop_index("ix_budgets_name", "budgets")
    with op.batch_alter_table("budgets") as budgets:
        for name in ("created_at", "deadline", "seconds_limit", "used_seconds"):
            budgets.drop_column(name)
        for name in ("board_seconds_limit", "name"):
            budgets.drop_column(name)
        for name, kind in _BUDGET_IDENTITY.items():
            budgets.alter_column(name, existing_type=kind, nullable=False)
