"""What was looked up, by minute, target, pipeline and outcome, and what was missed."""

from __future__ import annotations

from tunebook.cache.database import Database


class LookupStatistics:
    """What was looked up, by minute, target, pipeline and outcome, and what was missed."""

    def __init__(self, database: Database) -> None:
        self._database = database
