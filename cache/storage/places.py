"""What tells a database apart from all others that share something with it."""

from __future__ import annotations

import hashlib
import platform
from pathlib import Path

from tunebook.cache.storage.database import Database

# Of a PostgreSQL server: the cluster, the database, and a table, which is another after a restore.
_PLACE = """
    SELECT system_identifier, (SELECT oid FROM pg_database WHERE datname = current_database()),
        'revisions'::regclass::oid
    FROM pg_control_system()
"""
_DIGITS = 12


def place_of(database: Database) -> str:
    """A short text that is the same for all who open a database, another for other databases, and
    for one of a server another once it was restored into new tables."""
    if database.is_file:
        file = Path(database.name).stat()
        told = f"{_machine()} {file.st_dev} {file.st_ino}"
    else:
        with database.reading() as session:
            found = session.connection().exec_driver_sql(_PLACE).one()
        told = " ".join(map(str, found))
    return hashlib.sha256(told.encode()).hexdigest()[:_DIGITS]


def _machine() -> str:
    """What is the same in all containers of a machine, and on no other."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return platform.node()
