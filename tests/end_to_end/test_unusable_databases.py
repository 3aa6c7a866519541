"""Databases that cannot be used as they are: one clear line, and nothing in them is lost."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from tunebook.cache.errors import ExitCode
from tunebook.service.cli import run

Refused = Callable[..., tuple[int, str]]


@pytest.fixture
def database(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Path:
    """A database with nothing in it, alone in its folder."""
    folder = tmp_path / "database"
    folder.mkdir()
    path = folder / "tunebook.db"
    assert run(["db", "upgrade", "--db", str(path)]) == ExitCode.OK
    capfd.readouterr()
    return path


def test_a_database_of_a_newer_version_is_one_line(
    database: Path, refused: Refused, rnet: Path
) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    fixed = ["--shape", "input_2=1,24,24,3"]
    code, err = refused("lookup", rnet, "--target", "host", *fixed, "--db", database)
    assert code == ExitCode.DATABASE
    assert "9999" in err
    assert "tunebook db upgrade" in err


@pytest.fixture
def read_only_database(database: Path) -> Iterator[Path]:
    """A database that is not to be written, nor its folder."""
    folder = database.parent
    database.chmod(0o444)
    folder.chmod(0o555)
    yield database
    folder.chmod(0o755)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["tune", "--trials", "4"], ExitCode.DATABASE, "tunebook.db is read-only; make it"),
        (["lookup"], ExitCode.MISS, "1 schedule is missing: 1 never-tuned"),
    ],
    ids=["tune is refused in one line", "look-ups are served"],
)
def test_a_database_that_may_not_be_written(
    arguments: list[str],
    code: ExitCode,
    told: str,
    read_only_database: Path,
    convolution: Path,
    command: list[str],
) -> None:
    before = read_only_database.read_bytes()
    name, *options = arguments
    ended = subprocess.run(
        [
            *(*_bound_by_modes(), *command, name, convolution, "--target", "host", *options),
            *("--db", read_only_database),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == code, ended.stderr
    first, *rest = ended.stderr.splitlines()
    assert first.startswith("error: ")
    assert told in first
    assert (rest == []) == (code is ExitCode.DATABASE)
    assert read_only_database.read_bytes() == before
    assert [file.name for file in read_only_database.parent.iterdir()] == ["tunebook.db"]


def _bound_by_modes() -> list[str]:
    """What starts a program for which the modes of files count, which they do not for root."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root may write everywhere, and there is no setpriv to take that away")
    return ["setpriv", "--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search"]


@contextmanager
def _full_from_the_first_record() -> Iterator[None]:
    """A disk that is full from then on, as SQLite sees it: the file may not grow any more. No disk
    need be filled."""

    def limit(connection: Any, *_: Any) -> None:
        if connection.execute("SELECT count(*) FROM records").fetchone()[0]:
            connection.execute("PRAGMA max_page_count = 1")

    event.listen(Engine, "checkout", limit)
    try:
        yield
    finally:
        event.remove(Engine, "checkout", limit)


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_what_was_measured_is_kept(
    convolution: Path, capfd: pytest.CaptureFixture[str], database: Path, refused: Refused
) -> None:
    arguments = ["tune", str(convolution), "--target", "host", "--trials", "12"]
    arguments += ["--db", str(database), "--json"]
    with _full_from_the_first_record():
        code, err = refused(*arguments)
    assert code == ExitCode.DATABASE
    assert f"the database {database} has no room left" in err
    kept = _ids(database)
    assert 1 <= len(kept) < 12
    assert run(arguments) == ExitCode.OK
    assert _ids(database)[: len(kept)] == kept
    assert json.loads(capfd.readouterr().out)["trials"] == 12 - len(kept)


def _ids(database: Path) -> list[int]:
    with closing(sqlite3.connect(database)) as connection:
        return [row[0] for row in connection.execute("SELECT id FROM records ORDER BY id")]
