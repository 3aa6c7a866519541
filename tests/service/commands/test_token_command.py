"""`tunebook token`: made, listed, revoked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tunebook.cache.access.tokens import Role
from tunebook.cache.errors import ExitCode
from tunebook.cache.store import Store
from tunebook.service.cli import run


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "tunebook.db"
    monkeypatch.setenv("TUNEBOOK_DATABASE_URL", str(path))
    return path


def said(capfd: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capfd.readouterr().out)


def test_creating_prints_the_secret_and_nothing_else(
    database: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """So that `TUNEBOOK_TOKEN=$(tunebook token create ci)` works."""
    assert run(["token", "create", "ci", "--role", "submit"]) == ExitCode.OK
    (secret,) = capfd.readouterr().out.split()
    with Store.open(str(database)) as store:
        token = store.tokens.authenticate(secret)
    assert token is not None
    assert (token.name, token.role) == ("ci", Role.SUBMIT)


def test_a_token_reads_unless_it_is_told_more(
    database: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run(["token", "create", "page", "--json"])
    assert said(capfd)["role"] == "read"


def test_the_list_shows_every_token_and_no_secret(
    database: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run(["token", "create", "ci", "--json"])
    made = said(capfd)
    run(["token", "create", "desk", "--role", "board", "--board", "rpi4/pi-1"])
    capfd.readouterr()
    assert run(["token", "revoke", str(made["id"])]) == ExitCode.OK
    capfd.readouterr()
    assert run(["token", "list", "--json"]) == ExitCode.OK
    first, second = said(capfd)["tokens"]
    assert (first["name"], first["secret"], first["revoked_at"] is None) == ("ci", None, False)
    assert (second["role"], second["board"], second["revoked_at"]) == ("board", "rpi4/pi-1", None)
    assert run(["token", "list"]) == ExitCode.OK
    shown = capfd.readouterr().out
    assert made["prefix"] in shown
    assert made["secret"] not in shown


def test_a_revoked_token_is_good_for_nothing(
    database: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run(["token", "create", "ci", "--json"])
    made = said(capfd)
    run(["token", "revoke", str(made["id"])])
    with Store.open(str(database)) as store:
        token = store.tokens.authenticate(made["secret"])
    assert token is not None
    assert token.revoked_at is not None


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["create", ""], ExitCode.USAGE),
        (["create", "x", "--role", "king"], ExitCode.USAGE),
        (["create", "x", "--role", "board"], ExitCode.USAGE),
        (["create", "x", "--board", "rpi4/pi-1"], ExitCode.USAGE),
        (["create", "x", "--role", "board", "--board", "rpi4.quarantined/pi-1"], ExitCode.USAGE),
        (["revoke", "17"], ExitCode.FAILURE),
        (["revoke", "x"], ExitCode.USAGE),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_done_is_one_line(
    database: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], code: ExitCode
) -> None:
    assert run(["token", *arguments]) == code
    error = capfd.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
