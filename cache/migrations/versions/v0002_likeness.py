"""What finds near workloads and equivalent targets, models by their workloads, and where schedules
come from.

Rows of before know nothing of it: the next split of their model notes it.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# What a roll-back loses, with what counts it.
LOSSES = (
    ("notes of which record another was made from", "SELECT count(*) FROM origins"),
    (
        "workloads' likenesses, until their models are split again",
        "SELECT count(*) FROM workloads WHERE structure <> ''",
    ),
)

_WORKLOAD_COLUMNS = {
    "structure": sa.String(length=16),
    "anchor": sa.String(length=16),
    "attributes": sa.Text(),
    "constants": sa.Text(),
}


def _add(table: str, name: str, kind: sa.types.TypeEngine[str], default: str = "") -> None:
    op.add_column(table, sa.Column(name, kind, nullable=False, server_default=default))


def upgrade() -> None:
    for name, kind in _WORKLOAD_COLUMNS.items():
        _add("workloads", name, kind)
    op.create_index("ix_workloads_structure", "workloads", ["structure", "compiler"])
    op.create_index("ix_workloads_anchor", "workloads", ["anchor", "compiler"])
    _add("targets", "features", sa.String(length=16))
    op.create_index("ix_targets_features", "targets", ["features"])
    op.create_index("ix_model_tasks_workload", "model_tasks", ["workload_id"])
    op.add_column("models", sa.Column("saved", sa.Integer(), nullable=False, server_default="0"))
    _add("slots", "source", sa.String(length=32), "search")
    _add("slots", "origin", sa.Text())
    op.create_table(
        "origins",
        sa.Column("record_id", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["record_id"], ["records.id"], name=op.f("fk_origins_record_id")),
        sa.PrimaryKeyConstraint("record_id", name=op.f("pk_origins")),
    )


def downgrade() -> None:
    op.drop_table("origins")
    op.drop_column("slots", "origin")
    op.drop_column("slots", "source")
    op.drop_column("models", "saved")
    op.drop_index("ix_model_tasks_workload", "model_tasks")
    op.drop_index("ix_targets_features", "targets")
    op.drop_column("targets", "features")
    op.drop_index("ix_workloads_anchor", "workloads")
    op.drop_index("ix_workloads_structure", "workloads")
    for name in _WORKLOAD_COLUMNS:
        op.drop_column("workloads", name)
