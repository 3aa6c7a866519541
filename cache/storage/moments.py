"""Moments of the wall clock as the database keeps them: always in UTC."""

from __future__ import annotations

from datetime import datetime, timezone

from sqlalchemy import DateTime, Dialect
from sqlalchemy.types import TypeDecorator


def now() -> datetime:
    """The wall clock, in UTC."""
    return datetime.now(timezone.utc)


class Moment(TypeDecorator[datetime]):
    """An aware moment, stored and given back in UTC: SQLite forgets the zone of what it stores, and
    a server gives back its own."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        del dialect
        return None if value is None else value.astimezone(timezone.utc)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        del dialect
        if value is None:
            return None
        if value.tzinfo is None:
            return value.replace(tzinfo=timezone.utc)
        return value.astimezone(timezone.utc)
