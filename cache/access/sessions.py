"""Browsers that are signed in: each by a secret in a cookie, for as long as its token is good."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, select

from tunebook.cache.access.hashed_secrets import new_secret, secret_hash
from tunebook.cache.storage.database import Database
from tunebook.cache.storage.tables import SessionRow, TokenRow

# No cookie of ours is longer; a longer one is not worth hashing.
_LONGEST_SECRET = 64


@dataclass(frozen=True)
class SignedIn:
    """Who is behind a session: the name and role of the token that it was started with."""

    token_id: int
    name: str
    role: str


class Sessions:
    """Browsers that are signed in.

    - The cookie holds a secret of its own and never the token, so that what leaks from a browser
      opens nothing but pages, and not for long.
    - Only the SHA-256 of a secret is stored.
    - A session ends at `expires_at`, when it is ended, and at once when its token is revoked.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def start(self, token_id: int, now: datetime, lifetime: timedelta) -> str:
        """Starts a session and gives its secret; forgets those that are over."""
        secret = new_secret()
        with self._database.writing() as session:
            session.execute(delete(SessionRow).where(SessionRow.expires_at <= now))
            session.add(
                SessionRow(
                    sha256=secret_hash(secret),
                    token_id=token_id,
                    created_at=now,
                    expires_at=now + lifetime,
                )
            )
        return secret

    def find(self, secret: str, now: datetime) -> SignedIn | None:
        """Who is signed in by this secret; None where nobody is, or no longer."""
        if not secret or len(secret) > _LONGEST_SECRET:
            return None
        holder = (
            select(TokenRow.id, TokenRow.name, TokenRow.role)
            .join(SessionRow, SessionRow.token_id == TokenRow.id)
            .where(SessionRow.sha256 == secret_hash(secret))
            .where(SessionRow.expires_at > now)
            .where(TokenRow.revoked_at.is_(None))
        )
        with self._database.reading() as session:
            found = session.execute(holder).one_or_none()
        return None if found is None else SignedIn(*found)

    def end(self, secret: str) -> None:
        """Ends a session; one that is not there is over already."""
        with self._database.writing() as session:
            session.execute(delete(SessionRow).where(SessionRow.sha256 == secret_hash(secret)))
