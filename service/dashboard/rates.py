"""A hit rate as a page shows it: never better than it is."""

from __future__ import annotations

import math
from dataclasses import dataclass

_GOOD = 0.99
_FAIR = 0.90


@dataclass(frozen=True)
class Rate:
    """So many hits of so many look-ups."""

    hits: int
    lookups: int

    @property
    def share(self) -> float | None:
        """Between 0 and 1; None where nothing was looked up."""
        return self.hits / self.lookups if self.lookups else None

    @property
    def percent(self) -> str:
        """With one decimal, rounded down: only what always hits is `100`, and only what never
        does is `0`. Empty where nothing was looked up."""
        if not self.lookups:
            return ""
        tenths = math.floor(1000 * self.hits / self.lookups)
        if self.hits and not tenths:
            tenths = 1
        return f"{tenths / 10:.1f}" if tenths not in (0, 1000) else str(tenths // 10)

    @property
    def text(self) -> str:
        return f"{self.percent} %" if self.lookups else "-"

    @property
    def standing(self) -> str:
        """`good`, `fair` or `poor`; empty where nothing was looked up."""
        if self.share is None:
            return ""
        return "good" if self.share >= _GOOD else "fair" if self.share >= _FAIR else "poor"

    @property
    def width(self) -> str:
        """Of a bar, of 100; never nothing, so that a rate of 0 is seen as one."""
        return str(max(1, round(100 * (self.share or 0))))

    @property
    def misses(self) -> int:
        return self.lookups - self.hits

    def __add__(self, other: Rate) -> Rate:
        return Rate(self.hits + other.hits, self.lookups + other.lookups)


NO_LOOKUPS = Rate(0, 0)
