"""The token for the local command line: for this user, this machine and one port."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tunebook.cache.errors import UsageError
from tunebook.cache.remote.token_file import (
    given_token,
    read_local_token,
    token_path,
    write_local_token,
)


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8470",
        "http://localhost:8470/",
        "https://[::1]:8470",
        "http://127.1.2.3:8470",
    ],
)
def test_every_address_of_this_machine_finds_it(url: str) -> None:
    write_local_token(8470, "tbk_admin_x")
    assert read_local_token(url) == "tbk_admin_x"


@pytest.mark.parametrize(
    "url",
    [
        "http://tunebook.lab:8470",
        "http://localhost.evil.example:8470",
        "http://127.0.0.1@evil.example:8470",
        "http://192.168.1.2:8470",
        "http://127.0.0.1:8471",
        "http://127.0.0.1",
        "http://127.0.0.1:nonsense",
        "ftp://127.0.0.1",
        "",
    ],
)
def test_no_other_address_is_ever_given_it(url: str) -> None:
    write_local_token(8470, "tbk_admin_x")
    assert read_local_token(url) is None


def test_nobody_else_may_read_it_whatever_the_umask_says() -> None:
    before = os.umask(0)
    try:
        path = write_local_token(8470, "tbk_admin_x")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_writing_replaces_the_one_before_and_leaves_nothing_else() -> None:
    write_local_token(8470, "first")
    path = write_local_token(8470, "second")
    assert read_local_token("http://localhost:8470") == "second"
    assert path == token_path(8470)
    assert list(path.parent.iterdir()) == [path]


def test_a_token_is_read_from_the_file_that_is_named(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("tbk_1\n")
    named = {"TUNEBOOK_TOKEN_FILE": str(file)}
    assert given_token(named) == "tbk_1"
    assert given_token({**named, "TUNEBOOK_TOKEN": "tbk_2"}) == "tbk_2"
    assert given_token({}) is None


def test_a_file_that_is_named_and_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent of TUNEBOOK_TOKEN_FILE cannot be read: No such"):
        given_token({"TUNEBOOK_TOKEN_FILE": str(tmp_path / "absent")})
