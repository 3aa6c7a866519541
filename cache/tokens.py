"""Access tokens: made once, stored as hashes, revoked at once."""

from __future__ import annotations

from tunebook.cache.database import Database


class Tokens:
    """Access tokens: made once, stored as hashes, revoked at once."""

    def __init__(self, database: Database) -> None:
        self._database = database
