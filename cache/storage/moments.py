"""Moments of the wall clock as the database keeps them: always in UTC."""

from __future__ import annotations

from datetime import datetime, timezone

from sqlalchemy import DateTime, Dialect, func, select
from sqlalchemy.orm import Session
from sqlalchemy.types import TypeDecorator


def now() -> datetime:
    """The wall clock, in UTC."""
    return datetime.now(timezone.utc)


def database_now(session: Session) -> datetime:
    """The database's own clock, in UTC: those who write to a server from several machines need not
    agree on the time. A file's clock is that of its machine."""
    if session.get_bind().dialect.name != "postgresql":
        return now()
    moment: datetime = session.execute(select(func.clock_timestamp())).scalar_one()
    return moment.astimezone(timezone.utc)


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
