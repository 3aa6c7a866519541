"""A PostgreSQL server of the tests, on a unix socket in a folder of its own."""

from __future__ import annotations

import itertools
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from server_process import ServerProcess, unprivileged_user

from tunebook.cache.storage.database import upgrade

# What autovacuum learns of a database that tests share, at a moment of its own choosing, would
# change how the next test's queries are carried out.
_SETTINGS = ("listen_addresses=", "fsync=off", "max_connections=60", "autovacuum=off")
# Also of processes that a test has killed.
_END_SESSIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'"
_EMPTY = """
    DO $$ BEGIN
        EXECUTE (
            SELECT 'TRUNCATE ' || string_agg(tablename, ', ') || ' RESTART IDENTITY'
            FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'alembic_version'
        );
    END $$
"""


def postgresql_binaries() -> Path | None:
    """The folder of PostgreSQL's server programs, which Debian keeps off the PATH."""
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return folders[-1] if folders and (folders[-1] / "initdb").exists() else None


class PostgresqlServer(ServerProcess):
    """A server whose files stay when it is killed; `database` and `empty_database` make databases
    in it."""

    def __init__(self) -> None:
        super().__init__("pg", unprivileged_user("postgres"))
        binaries = postgresql_binaries()
        assert binaries is not None
        self._binaries = binaries
        self._numbers = itertools.count()
        self._emptied: list[str] = []
        options = ("-U", "postgres", "--auth=trust", "--no-sync")
        subprocess.run(
            [binaries / "initdb", "-D", self.folder / "data", *options],
            check=True,
            capture_output=True,
            user=self.user,
            cwd=self.folder,
        )

    def start(self) -> None:
        """Starts it, with what it held before, and waits until it answers."""
        options = [word for setting in _SETTINGS for word in ("-c", setting)]
        command = [self._binaries / "postgres", "-D", self.folder / "data", "-k", self.folder]
        self.launch([*command, *options], lambda: self.run_sql("SELECT 1"))

    def url(self, name: str) -> str:
        """The URL of one of its databases."""
        return f"postgresql://postgres@/{name}?host={self.folder}"

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL of a database with our schema and nothing in it. Emptying one takes a tenth of
        making another, and leaves no 300 files behind."""
        if not self._emptied:
            name = f"test{next(self._numbers)}"
            self.run_sql(f"CREATE DATABASE {name}")
            upgrade(self.url(name))
            self._emptied.append(name)
        name = self._emptied.pop()
        yield self.url(name)
        self.run_sql(_END_SESSIONS.format(name))
        self.run_sql(_EMPTY, name)
        self._emptied.append(name)

    def empty_database(self) -> str:
        """The URL of a database without any table."""
        name = f"empty{next(self._numbers)}"
        self.run_sql(f"CREATE DATABASE {name}")
        return self.url(name)

    def run_sql(self, statement: str, database: str = "postgres") -> None:
        """Carries out one statement, outside of any transaction."""
        import psycopg

        place = f"host={self.folder} user=postgres dbname={database}"
        with psycopg.connect(place, autocommit=True) as connection:
            connection.execute(statement)  # type: ignore[call-overload]


@contextmanager
def running_postgresql() -> Iterator[PostgresqlServer]:
    """A server that runs, and leaves nothing."""
    server = PostgresqlServer()
    try:
        server.start()
        yield server
        # At once: nothing of it is kept.
        server.kill(signal.SIGQUIT)
    finally:
        server.remove()
