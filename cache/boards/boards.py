"""Boards: what their agents report, how well they measure, and what became doubtful with them."""

from __future__ import annotations

from tunebook.cache.storage.database import Database


class Boards:
    """Boards: what their agents report, how well they measure, and what became doubtful with them.

    Each method is one transaction.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
