"""Jobs that are submitted to a coordinator, from the wish to the end, and their budgets."""

from __future__ import annotations

from tunebook.cache.database import Database
from tunebook.cache.leases import LeaseObserver


class JobQueue:
    """Jobs that are submitted to a coordinator, from the wish to the end, and their budgets."""

    def __init__(self, database: Database, observer: LeaseObserver) -> None:
        self._database = database
        self._observer = observer
