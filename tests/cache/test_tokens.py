"""Access tokens, on both databases: made once, stored as hashes, revoked at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tunebook.cache.access.tokens import Role
from tunebook.cache.errors import NotFoundError, UsageError
from tunebook.cache.store import Store


@pytest.fixture(params=["sqlite_url", pytest.param("postgresql_url", marks=pytest.mark.postgresql)])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    with Store.open(request.getfixturevalue(request.param)) as opened:
        yield opened


@pytest.mark.parametrize("role", Role)
def test_a_secret_names_its_role_and_has_256_random_bits(store: Store, role: Role) -> None:
    made = store.tokens.create("one", role, "rpi4/pi-1" if role is Role.BOARD else "")
    assert re.fullmatch(f"tbk_{role.value}_[A-Za-z0-9_-]{{43}}", made.secret)
    assert made.secret.startswith(made.token.prefix)
    assert len(made.secret) - len(made.token.prefix) >= 38


def test_secrets_differ(store: Store) -> None:
    made = {store.tokens.create("same", Role.READ).secret for _ in range(20)}
    assert len(made) == 20


def test_a_token_is_known_by_its_secret_and_by_nothing_like_it(store: Store) -> None:
    made = store.tokens.create("night", Role.SUBMIT)
    assert store.tokens.authenticate(made.secret) == made.token
    for other in (made.secret[:-1], made.secret + "x", made.token.prefix, "", "\udcff"):
        assert store.tokens.authenticate(other) is None


def test_a_revoked_token_stays_in_the_list_and_says_since_when(store: Store) -> None:
    first, second = (store.tokens.create(name, Role.READ).token for name in ("a", "b"))
    revoked = store.tokens.revoke(first.id)
    assert revoked.revoked_at is not None
    assert store.tokens.revoke(first.id) == revoked
    assert store.tokens.list() == (revoked, second)


def test_every_change_raises_the_revision_that_copies_hold_for(store: Store) -> None:
    before = store.revisions.now().tokens
    token = store.tokens.create("a", Role.READ).token
    made = store.revisions.now().tokens
    store.tokens.revoke(token.id)
    revoked = store.revisions.now().tokens
    assert before < made < revoked


def test_a_token_that_is_not_there_cannot_be_revoked(store: Store) -> None:
    with pytest.raises(NotFoundError, match="tunebook token list"):
        store.tokens.revoke(17)


@pytest.mark.parametrize("name", ["", " a", "a\nb", "a\0b", "x" * 101])
def test_a_name_is_one_printable_line(store: Store, name: str) -> None:
    with pytest.raises(UsageError, match="name"):
        store.tokens.create(name, Role.READ)


@pytest.mark.parametrize(("role", "board"), [(Role.BOARD, ""), (Role.READ, "rpi4/pi-1")])
def test_a_board_is_named_for_its_own_role_only(store: Store, role: Role, board: str) -> None:
    with pytest.raises(UsageError, match="--board"):
        store.tokens.create("one", role, board)


def test_no_secret_is_stored(sqlite_url: str) -> None:
    with Store.open(sqlite_url) as store:
        secret = store.tokens.create("one", Role.ADMIN).secret
    stored = b"".join(path.read_bytes() for path in Path(sqlite_url).parent.glob("*.db*"))
    assert b"tbk_admin_" in stored
    assert secret.encode() not in stored
    assert secret.removeprefix("tbk_admin_").encode() not in stored
