"""What a fleet needs: boards with their reports and references, classes with defaults, secrets that
replicas share.

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

# What a roll-back loses, with what counts it.
LOSSES = (
    ("defaults of board classes", "SELECT count(*) FROM board_classes"),
    ("boards' reports, references and quarantines", "SELECT count(*) FROM boards"),
    ("measurements of reference kernels", "SELECT count(*) FROM reference_runs"),
    (
        "marks of suspect records, which count as good from then on",
        "SELECT count(*) FROM records WHERE suspect",
    ),
)


def upgrade() -> None:
    _rename_peaks()
    _create_classes()
    _create_boards()
    _create_reference_runs()
    _create_restated_records()
    _create_secrets()
    with op.batch_alter_table("repeats") as repeats:
        repeats.alter_column("round_id", existing_type=sa.Integer(), nullable=True)
    op.add_column(
        "records",
        sa.Column("suspect", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
    op.create_index(
        "ix_records_suspect",
        "records",
        ["board_class", "id"],
        sqlite_where=sa.text("suspect = 1"),
        postgresql_where=sa.text("suspect"),
    )


def downgrade() -> None:
    op.drop_index("ix_records_suspect", "records")
    op.drop_column("records", "suspect")
    # Who measured something again without a round is not known to the version before.
    op.execute("DELETE FROM repeats WHERE round_id IS NULL")
    with op.batch_alter_table("repeats") as repeats:
        repeats.alter_column("round_id", existing_type=sa.Integer(), nullable=False)
    op.drop_table("secrets")
    op.drop_table("restated_records")
    op.drop_table("reference_runs")
    op.drop_table("boards")
    op.drop_table("board_classes")
    op.create_table("boards", *_peak_columns(), _primary_key("boards", "board_class", "target"))
    op.execute("INSERT INTO boards SELECT * FROM board_peaks")
    op.drop_table("board_peaks")


def _rename_peaks() -> None:
    """A table that was called after boards held what classes can do. It is made anew, since the
    name of its key would stay."""
    name = "board_peaks"
    op.create_table(name, *_peak_columns(), _primary_key(name, "board_class", "target"))
    op.execute("INSERT INTO board_peaks SELECT * FROM boards")
    op.drop_table("boards")


def _peak_columns() -> tuple[sa.Column[Any], ...]:
    return (
        sa.Column("board_class", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("flops_per_second", sa.Float(), nullable=False),
        sa.Column("bytes_per_second", sa.Float(), nullable=False),
        _moment("measured_at"),
    )


def _create_classes() -> None:
    op.create_table(
        "board_classes",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("num_cores", sa.Integer(), nullable=False),
        sa.Column("mtriple", sa.Text(), nullable=False),
        sa.Column("mcpu", sa.Text(), nullable=False, server_default=""),
        _primary_key("board_classes", "name"),
    )


def _create_boards() -> None:
    op.create_table(
        "boards",
        sa.Column("board_class", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("report", sa.JSON(), nullable=False),
        _moment("reported_at", nullable=True),
        sa.Column("reference_seconds", sa.Float(), nullable=True),
        sa.Column("reference_spread", sa.Float(), nullable=True),
        _moment("measured_at", nullable=True),
        sa.Column("good_record", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("quarantine", sa.Text(), nullable=False, server_default=""),
        _moment("quarantined_at", nullable=True),
        _primary_key("boards", "board_class", "name"),
    )


def _create_reference_runs() -> None:
    op.create_table(
        "reference_runs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("board_class", sa.Text(), nullable=False),
        sa.Column("board", sa.Text(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("run_seconds", sa.JSON(), nullable=False),
        sa.Column("within", sa.Boolean(), nullable=False),
        sa.Column("board_state", sa.JSON(), nullable=False),
        _moment("created_at"),
        _primary_key("reference_runs", "id"),
    )
    op.create_index("ix_reference_runs_board", "reference_runs", ["board_class", "board", "id"])


def _create_restated_records() -> None:
    op.create_table(
        "restated_records",
        sa.Column("record_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["record_id"], ["records.id"], name=op.f("fk_restated_records_record_id")
        ),
        _primary_key("restated_records", "record_id"),
    )


def _create_secrets() -> None:
    op.create_table(
        "secrets",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("value", sa.String(length=64), nullable=False),
        _primary_key("secrets", "name"),
    )


def _moment(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def _primary_key(table: str, *columns: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint(*columns, name=op.f(f"pk_{table}"))
