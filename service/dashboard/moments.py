"""Moments as pages show them: in UTC, to the minute."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone


@dataclass(frozen=True)
class Moment:
    """A moment; one without an offset is of UTC, as SQLite gives them."""

    at: datetime

    @property
    def machine(self) -> str:
        """ISO 8601, for `datetime` attributes."""
        return self._utc.strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def text(self) -> str:
        return self._utc.strftime("%Y-%m-%d %H:%M UTC")

    @property
    def _utc(self) -> datetime:
        aware = self.at if self.at.tzinfo else self.at.replace(tzinfo=timezone.utc)
        return aware.astimezone(timezone.utc)
