"""Runs the migrations on the connection that database.py hands in; there is no alembic.ini."""

from __future__ import annotations

from alembic import context

from tunebook.cache.storage.tables import Base

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=Base.metadata,
    transaction_per_migration=False,
    # SQLite cannot alter a column: Alembic then copies the table.
    render_as_batch=True,
)
context.run_migrations()
