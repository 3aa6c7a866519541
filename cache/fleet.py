"""The workers that are there now, and the boards that they have."""

from __future__ import annotations

from tunebook.cache.database import Database
from tunebook.cache.leases import LeaseObserver


class Fleet:
    """The workers that are there now, and the boards that they have."""

    def __init__(self, database: Database, observer: LeaseObserver) -> None:
        self._database = database
        self._observer = observer
