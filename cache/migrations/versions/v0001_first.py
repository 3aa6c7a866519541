"""The first schema.

Revision ID: 0001
Revises:
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# In the order of creation: what refers comes after what is referred to.
TABLES = (
    "boards",
    "targets",
    "workloads",
    "budgets",
    "models",
    "records",
    "jobs",
    "model_tasks",
    "schedules",
    "tasks",
    "rounds",
    "repeats",
    "slots",
)


def upgrade() -> None:
    op.create_table(
        "boards",
        sa.Column("board_class", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("flops_per_second", sa.Float(), nullable=False),
        sa.Column("bytes_per_second", sa.Float(), nullable=False),
        sa.Column("measured_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("board_class", "target", name=op.f("pk_boards")),
    )
    op.create_table(
        "targets",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_targets")),
        sa.UniqueConstraint("text", name=op.f("uq_targets_text")),
    )
    op.create_table(
        "workloads",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("op", sa.Text(), nullable=False),
        sa.Column("buffers", sa.Text(), nullable=False),
        sa.Column("compiler", sa.String(length=128), nullable=False),
        sa.Column("hash", sa.String(length=32), nullable=False),
        sa.Column("dtypes", sa.Text(), nullable=False),
        sa.Column("shapes", sa.Text(), nullable=False),
        sa.Column("elements", sa.Float(), nullable=False),
        sa.Column("flops", sa.Float(), nullable=False),
        sa.Column("tir", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workloads")),
        sa.UniqueConstraint(
            "hash", "compiler", "op", "buffers", name=op.f("uq_workloads_hash_compiler_op_buffers")
        ),
    )
    op.create_index(
        "ix_workloads_same_dtype",
        "workloads",
        ["op", "dtypes", "compiler", "elements"],
        unique=False,
    )
    op.create_index(
        "ix_workloads_same_shape", "workloads", ["op", "shapes", "compiler"], unique=False
    )
    op.create_table(
        "budgets",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("shapes", sa.Text(), nullable=False),
        sa.Column("target_id", sa.Integer(), nullable=False),
        sa.Column("compiler", sa.String(length=128), nullable=False),
        sa.Column("trial_limit", sa.Integer(), nullable=False),
        sa.Column("granted", sa.Integer(), nullable=False),
        sa.Column("spent", sa.Integer(), nullable=False),
        sa.Column("board_seconds", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["target_id"], ["targets.id"], name=op.f("fk_budgets_target_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_budgets")),
        sa.UniqueConstraint(
            "digest",
            "shapes",
            "target_id",
            "compiler",
            name=op.f("uq_budgets_digest_shapes_target_id_compiler"),
        ),
    )
    op.create_table(
        "models",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("shapes", sa.Text(), nullable=False),
        sa.Column("target_id", sa.Integer(), nullable=False),
        sa.Column("compiler", sa.String(length=128), nullable=False),
        sa.Column("choices", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["target_id"], ["targets.id"], name=op.f("fk_models_target_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_models")),
        sa.UniqueConstraint(
            "digest",
            "shapes",
            "target_id",
            "compiler",
            "choices",
            name=op.f("uq_models_digest_shapes_target_id_compiler_choices"),
        ),
    )
    op.create_table(
        "records",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("workload_id", sa.Integer(), nullable=False),
        sa.Column("target_id", sa.Integer(), nullable=False),
        sa.Column("module_hash", sa.String(length=64), nullable=False),
        sa.Column("emulated", sa.Boolean(), nullable=False),
        sa.Column("verified", sa.Boolean(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=True),
        sa.Column("error", sa.String(length=32), nullable=True),
        sa.Column("error_text", sa.Text(), nullable=False),
        sa.Column("source", sa.String(length=32), nullable=False),
        sa.Column("board", sa.Text(), nullable=False),
        sa.Column("board_class", sa.Text(), nullable=False),
        sa.Column("board_seconds", sa.Float(), nullable=False),
        sa.Column("board_state", sa.JSON(), nullable=False),
        sa.Column("run_seconds", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("feature_columns", sa.Integer(), nullable=False),
        sa.Column("trace", sa.Text(), nullable=False),
        sa.Column("features", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["target_id"], ["targets.id"], name=op.f("fk_records_target_id")),
        sa.ForeignKeyConstraint(
            ["workload_id"], ["workloads.id"], name=op.f("fk_records_workload_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_records")),
        sa.UniqueConstraint(
            "workload_id",
            "target_id",
            "emulated",
            "module_hash",
            name=op.f("uq_records_workload_id_target_id_emulated_module_hash"),
        ),
    )
    op.create_index(
        "ix_records_fastest",
        "records",
        ["workload_id", "target_id", "emulated", "verified", "seconds"],
        unique=False,
    )
    op.create_index("ix_records_newest", "records", ["target_id", "id"], unique=False)
    op.create_table(
        "jobs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("model_id", sa.Integer(), nullable=False),
        sa.Column("budget_id", sa.Integer(), nullable=False),
        sa.Column("board_class", sa.Text(), nullable=False),
        sa.Column("emulated", sa.Boolean(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["budget_id"], ["budgets.id"], name=op.f("fk_jobs_budget_id")),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name=op.f("fk_jobs_model_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    op.create_index(
        "uq_jobs_open",
        "jobs",
        ["model_id", "board_class", "emulated"],
        unique=True,
        sqlite_where=sa.text("state = 'open'"),
        postgresql_where=sa.text("state = 'open'"),
    )
    op.create_table(
        "model_tasks",
        sa.Column("model_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("workload_id", sa.Integer(), nullable=False),
        sa.Column("weight", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name=op.f("fk_model_tasks_model_id")),
        sa.ForeignKeyConstraint(
            ["workload_id"], ["workloads.id"], name=op.f("fk_model_tasks_workload_id")
        ),
        sa.PrimaryKeyConstraint("model_id", "position", name=op.f("pk_model_tasks")),
    )
    op.create_table(
        "schedules",
        sa.Column("workload_id", sa.Integer(), nullable=False),
        sa.Column("target_id", sa.Integer(), nullable=False),
        sa.Column("emulated", sa.Boolean(), nullable=False),
        sa.Column("record_id", sa.Integer(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["record_id"], ["records.id"], name=op.f("fk_schedules_record_id")),
        sa.ForeignKeyConstraint(["target_id"], ["targets.id"], name=op.f("fk_schedules_target_id")),
        sa.ForeignKeyConstraint(
            ["workload_id"], ["workloads.id"], name=op.f("fk_schedules_workload_id")
        ),
        sa.PrimaryKeyConstraint("workload_id", "target_id", "emulated", name=op.f("pk_schedules")),
    )
    op.create_table(
        "tasks",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("workload_id", sa.Integer(), nullable=False),
        sa.Column("target_id", sa.Integer(), nullable=False),
        sa.Column("weight", sa.Integer(), nullable=False),
        sa.Column("untuned_seconds", sa.Float(), nullable=True),
        sa.Column("exhausted", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_tasks_job_id")),
        sa.ForeignKeyConstraint(["target_id"], ["targets.id"], name=op.f("fk_tasks_target_id")),
        sa.ForeignKeyConstraint(
            ["workload_id"], ["workloads.id"], name=op.f("fk_tasks_workload_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tasks")),
        sa.UniqueConstraint("job_id", "workload_id", name=op.f("uq_tasks_job_id_workload_id")),
    )
    op.create_index("ix_tasks_workload", "tasks", ["workload_id", "target_id"], unique=False)
    op.create_table(
        "rounds",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("task_id", sa.Integer(), nullable=False),
        sa.Column("workload_id", sa.Integer(), nullable=False),
        sa.Column("target_id", sa.Integer(), nullable=False),
        sa.Column("emulated", sa.Boolean(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("gain", sa.Float(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("granted", sa.Integer(), nullable=True),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("beat", sa.Integer(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("holder", sa.Text(), nullable=True),
        sa.Column("best_seconds", sa.Float(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_rounds_job_id")),
        sa.ForeignKeyConstraint(["target_id"], ["targets.id"], name=op.f("fk_rounds_target_id")),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name=op.f("fk_rounds_task_id")),
        sa.ForeignKeyConstraint(
            ["workload_id"], ["workloads.id"], name=op.f("fk_rounds_workload_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rounds")),
    )
    op.create_index(
        "ix_rounds_history", "rounds", ["workload_id", "target_id", "emulated", "id"], unique=False
    )
    op.create_index("ix_rounds_job", "rounds", ["job_id", "state"], unique=False)
    op.create_index("ix_rounds_queue", "rounds", ["state", "gain"], unique=False)
    op.create_index(
        "uq_rounds_open",
        "rounds",
        ["workload_id", "target_id"],
        unique=True,
        sqlite_where=sa.text("state = 'open'"),
        postgresql_where=sa.text("state = 'open'"),
    )
    op.create_table(
        "repeats",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("record_id", sa.Integer(), nullable=False),
        sa.Column("round_id", sa.Integer(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=True),
        sa.Column("error", sa.String(length=32), nullable=True),
        sa.Column("error_text", sa.Text(), nullable=False),
        sa.Column("board", sa.Text(), nullable=False),
        sa.Column("board_seconds", sa.Float(), nullable=False),
        sa.Column("board_state", sa.JSON(), nullable=False),
        sa.Column("run_seconds", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["record_id"], ["records.id"], name=op.f("fk_repeats_record_id")),
        sa.ForeignKeyConstraint(["round_id"], ["rounds.id"], name=op.f("fk_repeats_round_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_repeats")),
    )
    op.create_index(op.f("ix_repeats_record_id"), "repeats", ["record_id"], unique=False)
    op.create_table(
        "slots",
        sa.Column("round_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("module_hash", sa.String(length=64), nullable=False),
        sa.Column("record_id", sa.Integer(), nullable=True),
        sa.Column("charged", sa.Boolean(), nullable=False),
        sa.Column("trace", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["record_id"], ["records.id"], name=op.f("fk_slots_record_id")),
        sa.ForeignKeyConstraint(["round_id"], ["rounds.id"], name=op.f("fk_slots_round_id")),
        sa.PrimaryKeyConstraint("round_id", "number", name=op.f("pk_slots")),
    )


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table)
