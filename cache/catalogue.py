"""Lists of what is stored, a page at a time, in an order that stays."""

from __future__ import annotations

from tunebook.cache.database import Database


class Catalogue:
    """Lists of what is stored, a page at a time, in an order that stays."""

    def __init__(self, database: Database) -> None:
        self._database = database
