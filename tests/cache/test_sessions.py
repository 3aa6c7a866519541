"""Sessions of browsers, on both databases."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import pytest

from tunebook.cache.access.sessions import SignedIn
from tunebook.cache.access.tokens import NewToken, Role
from tunebook.cache.store import Store

NOW = datetime(2026, 3, 1, 22, 0, tzinfo=timezone.utc)
NIGHT = timedelta(hours=12)


class SessionContract:
    """What sessions do, whichever database is behind them."""

    @pytest.fixture
    def store(self, url: str) -> Iterator[Store]:
        with Store.open(url) as opened:
            yield opened

    @pytest.fixture
    def token(self, store: Store) -> NewToken:
        return store.tokens.create("lab", Role.READ)

    def test_a_session_tells_whose_token_it_was_started_with(
        self, store: Store, token: NewToken
    ) -> None:
        secret = store.sessions.start(token.token.id, NOW, NIGHT)
        assert store.sessions.find(secret, NOW) == SignedIn(token.token.id, "lab", "read")

    def test_a_session_ends_when_its_time_is_over(self, store: Store, token: NewToken) -> None:
        secret = store.sessions.start(token.token.id, NOW, NIGHT)
        assert store.sessions.find(secret, NOW + NIGHT - timedelta(seconds=1)) is not None
        assert store.sessions.find(secret, NOW + NIGHT) is None

    def test_a_session_ends_with_its_token_and_no_other_does(
        self, store: Store, token: NewToken
    ) -> None:
        other = store.tokens.create("other", Role.READ)
        ended = store.sessions.start(token.token.id, NOW, NIGHT)
        going_on = store.sessions.start(other.token.id, NOW, NIGHT)
        store.tokens.revoke(token.token.id)
        assert store.sessions.find(ended, NOW) is None
        assert store.sessions.find(going_on, NOW) is not None

    def test_an_ended_session_stays_ended(self, store: Store, token: NewToken) -> None:
        secret = store.sessions.start(token.token.id, NOW, NIGHT)
        other = store.sessions.start(token.token.id, NOW, NIGHT)
        store.sessions.end(secret)
        store.sessions.end(secret)
        assert store.sessions.find(secret, NOW) is None
        assert store.sessions.find(other, NOW) is not None

    @pytest.mark.parametrize("secret", ["", "nobody", "x" * 10_000, "\ud800", "\x00"])
    def test_nobody_is_behind_a_secret_that_was_never_given(
        self, store: Store, token: NewToken, secret: str
    ) -> None:
        store.sessions.start(token.token.id, NOW, NIGHT)
        assert store.sessions.find(secret, NOW) is None

    def test_neither_the_token_nor_what_is_stored_of_a_session_is_its_secret(
        self, store: Store, token: NewToken
    ) -> None:
        secret = store.sessions.start(token.token.id, NOW, NIGHT)
        assert store.sessions.find(token.secret, NOW) is None
        assert store.sessions.find(hashlib.sha256(secret.encode()).hexdigest(), NOW) is None


class TestSQLite(SessionContract):
    @pytest.fixture
    def url(self, sqlite_url: str) -> str:
        return sqlite_url


@pytest.mark.postgresql
class TestPostgreSQL(SessionContract):
    @pytest.fixture
    def url(self, postgresql_url: str) -> str:
        return postgresql_url
