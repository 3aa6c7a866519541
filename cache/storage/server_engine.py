"""How a database server is talked to: nothing that it does not answer is waited for without end."""

from __future__ import annotations

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import NoSuchModuleError

from tunebook.cache.errors import DatabaseError

# As long as SQLite's writers wait for each other.
_LOCK = "30s"
# More than the longest that a page or an export asks for.
_STATEMENT = "120s"
# A process that was stopped half-way must not hold its locks until it goes on.
_BETWEEN_STATEMENTS = "30s"
_SETTINGS = {
    "lock_timeout": _LOCK,
    "statement_timeout": _STATEMENT,
    "idle_in_transaction_session_timeout": _BETWEEN_STATEMENTS,
}
# Known to whoever changes a schema, and used for nothing else in a database.
_SCHEMA_LOCK = 8470
# Parameters of libpq: seconds, but for the last, which are milliseconds. A server that is gone
# without a word is given up within half a minute.
_CONNECTION = {
    "connect_timeout": "10",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}


def server_engine(url: URL) -> Engine:
    """An engine for a PostgreSQL server; what the URL says itself counts more than what is said
    here. A connection that the server has closed is replaced before it is used.

    Raises DatabaseError where its driver is not installed.
    """
    try:
        return create_engine(url, pool_pre_ping=True, connect_args=_parameters(url))
    except (ModuleNotFoundError, NoSuchModuleError):
        raise DatabaseError(
            "PostgreSQL needs its driver: pip install 'tunebook[postgresql]'"
        ) from None


def _parameters(url: URL) -> dict[str, str]:
    parameters = {"options": " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())}
    return {
        name: value for name, value in (parameters | _CONNECTION).items() if name not in url.query
    }


def begin_schema_change(connection: Connection) -> None:
    """Lets the statements of this transaction take as long as they take, since indexes of large
    tables are made, and waits for whoever else changes the schema."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
        connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
        # Of two that make the same table at once the second fails.
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_SCHEMA_LOCK})")
