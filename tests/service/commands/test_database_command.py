"""`tunebook db`: upgraded, taken back, backed up and restored, by the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tunebook.cache.access.tokens import Role
from tunebook.cache.errors import ExitCode
from tunebook.cache.storage.schema import HEAD
from tunebook.cache.store import Store
from tunebook.service.cli import run


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One with a token in it."""
    path = tmp_path / "tunebook.db"
    monkeypatch.setenv("TUNEBOOK_DATABASE_URL", str(path))
    with Store.open(str(path)) as store:
        store.tokens.create("ci", Role.READ)
    return path


def said(capfd: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capfd.readouterr().out)


def test_going_back_names_what_it_loses_until_that_is_accepted(
    database: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["db", "downgrade", "0002"]) == ExitCode.USAGE
    assert "loses what it has no place for: 1 access tokens; back up first" in (
        capfd.readouterr().err
    )
    assert run(["db", "downgrade", "0002", "--accept-loss", "--json"]) == ExitCode.OK
    lost = [{"what": "access tokens", "count": 1}]
    assert said(capfd) == {"before": HEAD, "after": "0002", "lost": lost}
    assert run(["token", "list"]) == ExitCode.DATABASE
    assert "run `tunebook db upgrade`" in capfd.readouterr().err
    assert run(["db", "upgrade", "--json"]) == ExitCode.OK
    assert said(capfd) == {"before": "0002", "after": HEAD}


def test_a_backup_is_restored_by_the_folder_that_it_names(
    database: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place, models = str(tmp_path / "backups"), str(tmp_path / "models")
    assert run(["db", "backup", place, "--models", models, "--keep", "2", "--json"]) == 0
    made = said(capfd)
    assert (made["schema_version"], made["models"]) == (HEAD, 0)
    assert run(["db", "restore", made["backup"], "--models", models]) == ExitCode.DATABASE
    assert "--overwrite" in capfd.readouterr().err
    elsewhere = str(tmp_path / "elsewhere.db")
    restore = ["db", "restore", made["backup"], "--without-models", "--db", elsewhere, "--json"]
    assert run(restore) == ExitCode.OK
    assert said(capfd)["schema_version"] == HEAD
    with Store.open(elsewhere) as store:
        assert [token.name for token in store.tokens.list()] == ["ci"]


def test_a_backup_of_before_says_what_to_do_next(
    database: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run(["db", "downgrade", "0003"])
    run(["db", "backup", str(tmp_path / "backups"), "--without-models"])
    capfd.readouterr()
    run(["db", "restore", str(tmp_path / "backups"), "--db", str(tmp_path / "new.db"),
         "--without-models"])  # fmt: skip
    assert "run `tunebook db upgrade`" in capfd.readouterr().out
