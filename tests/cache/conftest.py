"""A database for each test: a fresh SQLite file, or one of a PostgreSQL server of our own."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

# Tests are imported without a package (--import-mode=importlib); these modules are shared by them.
sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite(
    "store_contract",
    "known_workloads_contract",
    "miss_contract",
    "near_contract",
    "origin_contract",
    "round_contract",
    "shared_rounds_contract",
    "lease_contract",
    "import_contract",
    "submission_contract",
    "joining_contract",
    "stage_contract",
    "event_contract",
    "limits_contract",
    "fleet_contract",
)

from tunebook.cache.storage.database import upgrade  # noqa: E402

_START_SECONDS = 60
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


def _server_binaries() -> Path | None:
    """The folder of PostgreSQL's server programs, which Debian keeps off the PATH."""
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return folders[-1] if folders and (folders[-1] / "initdb").exists() else None


def _server_user() -> str | None:
    """Who runs the server: PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The folder of the unix socket of a server that lives as long as the session."""
    binaries = _server_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server is installed (no initdb in PATH or /usr/lib/postgresql)")
    user = _server_user()
    folder = Path(tempfile.mkdtemp(prefix="tb-pg-"))
    if user is not None:
        shutil.chown(folder, user)
    data = folder / "data"
    subprocess.run(
        [binaries / "initdb", "-D", data, "-U", "postgres", "--auth=trust", "--no-sync"],
        check=True,
        capture_output=True,
        user=user,
        cwd=folder,
    )
    log = (folder / "log").open("wb")
    settings = ("listen_addresses=", "fsync=off", "max_connections=60")
    server = subprocess.Popen(
        [binaries / "postgres", "-D", data, "-k", folder, *_as_options(settings)],
        stdout=log,
        stderr=log,
        user=user,
        cwd=folder,
    )
    try:
        _wait_until_ready(server, folder)
        _run_sql(folder, "CREATE DATABASE template")
        upgrade(_url(folder, "template"))
        yield str(folder)
    finally:
        # At once: nothing of it is kept.
        server.send_signal(signal.SIGQUIT)
        server.wait(timeout=_START_SECONDS)
        log.close()
        shutil.rmtree(folder, ignore_errors=True)


_numbers = itertools.count()


@pytest.fixture(scope="session")
def emptied_databases() -> list[str]:
    """The databases that earlier tests have left, with nothing in them."""
    return []


@pytest.fixture
def postgresql_url(postgresql_server: str, emptied_databases: list[str]) -> Iterator[str]:
    """A database with our schema and nothing in it. Emptying one takes a tenth of making another,
    and leaves no 300 files behind."""
    folder = Path(postgresql_server)
    if not emptied_databases:
        emptied_databases.append(f"test{next(_numbers)}")
        _run_sql(folder, f"CREATE DATABASE {emptied_databases[0]} TEMPLATE template")
    name = emptied_databases.pop()
    yield _url(folder, name)
    _run_sql(folder, _END_SESSIONS.format(name))
    _run_sql(folder, _EMPTY, name)
    emptied_databases.append(name)


@pytest.fixture
def empty_postgresql_url(postgresql_server: str) -> str:
    """A database without any table."""
    name = f"empty{next(_numbers)}"
    _run_sql(Path(postgresql_server), f"CREATE DATABASE {name}")
    return _url(Path(postgresql_server), name)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with our schema and nothing in it: copying it is quicker than making another."""
    path = tmp_path_factory.mktemp("template") / "tunebook.db"
    upgrade(str(path))
    return path


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    return str(shutil.copy(sqlite_template, tmp_path))


def _url(folder: Path, name: str) -> str:
    return f"postgresql://postgres@/{name}?host={folder}"


def _as_options(settings: tuple[str, ...]) -> list[str]:
    return [word for setting in settings for word in ("-c", setting)]


def _run_sql(folder: Path, statement: str, database: str = "postgres") -> None:
    import psycopg

    with psycopg.connect(f"host={folder} user=postgres dbname={database}", autocommit=True) as it:
        it.execute(statement)  # type: ignore[call-overload]


def _wait_until_ready(server: subprocess.Popen[bytes], folder: Path) -> None:
    import psycopg

    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            _run_sql(folder, "SELECT 1")
            return
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((folder / "log").read_text()) from None
            time.sleep(0.05)
