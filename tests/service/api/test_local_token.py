"""The token that a coordinator leaves for commands of the user who runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tunebook.cache.access.tokens import Role
from tunebook.cache.remote.token_file import read_local_token
from tunebook.cache.store import Store
from tunebook.service.api.guards.local_token import leave_local_token

URL = "http://127.0.0.1:8470"


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    monkeypatch.setenv("XDG_DATA_HOME", str(folder))
    return folder


def left_token() -> str:
    secret = read_local_token(URL)
    assert secret is not None
    return secret


def test_what_it_leaves_may_do_everything(store: Store) -> None:
    leave_local_token(store.tokens, 8470)
    token = store.tokens.authenticate(left_token())
    assert token is not None
    assert token.role is Role.ADMIN


def test_a_good_one_is_kept_and_no_other_made(store: Store) -> None:
    leave_local_token(store.tokens, 8470)
    first = left_token()
    leave_local_token(store.tokens, 8470)
    assert left_token() == first
    assert len(store.tokens.list()) == 1


def test_a_revoked_one_is_replaced(store: Store) -> None:
    leave_local_token(store.tokens, 8470)
    first = left_token()
    (token,) = store.tokens.list()
    store.tokens.revoke(token.id)
    leave_local_token(store.tokens, 8470)
    assert left_token() != first


def test_one_of_another_database_is_replaced(store: Store, tmp_path: Path) -> None:
    with Store.open(str(tmp_path / "other.db")) as other:
        leave_local_token(other.tokens, 8470)
    leave_local_token(store.tokens, 8470)
    assert store.tokens.authenticate(left_token()) is not None


def test_where_none_can_be_left_none_stays_good(store: Store, data_folder: Path) -> None:
    data_folder.write_text("in the way")
    leave_local_token(store.tokens, 8470)
    (token,) = store.tokens.list()
    assert token.revoked_at is not None
