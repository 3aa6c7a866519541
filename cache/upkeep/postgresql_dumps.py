"""PostgreSQL databases dumped and loaded by PostgreSQL's own programs, each from one snapshot."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from sqlalchemy.engine import URL

from tunebook.cache.errors import DatabaseError

# The restored tables belong to whoever restores them.
_OF_NOBODY = ("--no-owner", "--no-privileges")
# They are made anew where they are missing.
_WITHOUT_SECRETS = "--exclude-table-data=secrets"
_DROP_TABLES = """
DO $$ DECLARE one text; BEGIN
    FOR one IN SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
               WHERE schemaname = current_schema() LOOP
        EXECUTE 'DROP TABLE ' || one || ' CASCADE';
    END LOOP;
END $$;
"""


def dump(url: URL, path: Path) -> None:
    """Writes what the database has at this moment, but for secrets that processes share, to a file
    in pg_dump's custom format. Raises DatabaseError."""
    options = ("--format=custom", *_OF_NOBODY, _WITHOUT_SECRETS, f"--file={path}")
    _run(url, "pg_dump", *options, *_named(url))


def load(path: Path, url: URL) -> None:
    """Puts what a dump has in the place of all tables of the database, in one transaction. Raises
    DatabaseError, and then nothing has changed."""
    with tempfile.TemporaryDirectory(prefix="tunebook-restore-", dir=path.parent) as folder:
        drop, script = Path(folder, "drop.sql"), Path(folder, "restore.sql")
        drop.write_text(_DROP_TABLES, encoding="ascii")
        # Not by a pipe: half a script would be followed to its end, and kept.
        _run(url, "pg_restore", *_OF_NOBODY, f"--file={script}", str(path))
        _run(
            url,
            "psql",
            "--no-psqlrc",
            "--quiet",
            "--single-transaction",
            "--set=ON_ERROR_STOP=1",
            "--output=/dev/null",
            f"--file={drop}",
            f"--file={script}",
            *_named(url),
        )


def _named(url: URL) -> tuple[str, ...]:
    """The database as libpq takes it, without the password: others see what is run."""
    plain = url.set(drivername="postgresql", password=None)
    return (f"--dbname={plain.render_as_string()}",)


def _run(url: URL, program: str, *arguments: str) -> None:
    environment = dict(os.environ)
    if url.password is not None:
        environment["PGPASSWORD"] = str(url.password)
    name = url.render_as_string(hide_password=True)
    try:
        done = subprocess.run(
            [program, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )
    except FileNotFoundError:
        raise DatabaseError(
            f"{program} is not installed, which backs up and restores PostgreSQL; install its "
            "client programs (postgresql-client), as new as the server at least"
        ) from None
    if done.returncode != 0:
        told = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()
        raise DatabaseError(f"{program} failed on {name}: {told[0][:300]}")
