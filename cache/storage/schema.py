"""Which version of the schema a database has, and how it gets this one.

Alembic is only imported where a schema is made or changed: opening a database stays quick.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from tunebook.cache.errors import DatabaseError

# The newest revision in migrations/versions; compared with it by a test.
HEAD = "0004"
# Every revision before HEAD, oldest first.
OLDER: tuple[str, ...] = ("0001", "0002", "0003")

_VERSION_TABLE = "alembic_version"

if TYPE_CHECKING:
    from alembic.config import Config


@dataclass(frozen=True)
class Loss:
    """What a roll-back loses, and how many there are of it now."""

    what: str
    count: int


def is_empty(connection: Connection) -> bool:
    """Whether the database has no table at all."""
    return not inspect(connection).get_table_names()


def version_of(connection: Connection, name: str) -> str:
    """The revision of a database. Raises DatabaseError when it is not one of Tunebook's, or is
    newer than this Tunebook."""
    version = None
    if inspect(connection).has_table(_VERSION_TABLE):
        version = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if version is None:
        raise DatabaseError(f"{name} is not a Tunebook database; give another one with --db")
    if version != HEAD and version not in OLDER:
        raise DatabaseError(
            f"the database {name} has schema {version}, newer than {HEAD}, the newest that this "
            "Tunebook reads; install the newer Tunebook (its `tunebook db upgrade` mends schemas)"
        )
    return str(version)


def check_version(connection: Connection, name: str) -> None:
    """Raises DatabaseError unless the database has exactly this version's schema."""
    if is_empty(connection):
        raise DatabaseError(f"the database {name} is empty; run `tunebook db upgrade` first")
    version = version_of(connection, name)
    if version != HEAD:
        raise DatabaseError(
            f"the database {name} has schema {version}, older than {HEAD} of this Tunebook; "
            "run `tunebook db upgrade`"
        )


def create_schema(connection: Connection) -> None:
    """Runs the migrations that are still missing, in the transaction of `connection`."""
    from alembic import command

    command.upgrade(_config(connection), "head")


def lower_schema(connection: Connection, revision: str) -> None:
    """Takes back the migrations after `revision`, in the transaction of `connection`."""
    from alembic import command

    command.downgrade(_config(connection), revision)


def losses(connection: Connection, version: str, revision: str) -> tuple[Loss, ...]:
    """What going back from `version` to `revision` loses, newest migration first; what there is
    none of is left out."""
    from alembic.script import ScriptDirectory

    migrations = ScriptDirectory.from_config(_config(connection))
    found = [
        Loss(what, int(connection.execute(text(count)).scalar_one()))
        for one in migrations.iterate_revisions(version, revision)
        for what, count in one.module.LOSSES
    ]
    return tuple(loss for loss in found if loss.count)


def _config(connection: Connection) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "tunebook.cache:migrations")
    config.attributes["connection"] = connection
    return config
