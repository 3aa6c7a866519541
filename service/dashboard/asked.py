"""What somebody asked a page to show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from tunebook.cache.statistics.lookup_counts import Window


@dataclass(frozen=True)
class Asked:
    """What somebody asked to see; None is everything. What is no window is the last 24 hours."""

    window: Window = Window.DAY
    target: str | None = None
    pipeline: str | None = None

    @classmethod
    def read(cls, parameters: Mapping[str, str]) -> Asked:
        """From the parameters of an address."""
        windows = {window.value: window for window in Window}
        return cls(
            windows.get(parameters.get("window", ""), Window.DAY),
            parameters.get("target") or None,
            parameters.get("pipeline") or None,
        )

    @property
    def address(self) -> str:
        """Where this is shown."""
        given = {"target": self.target, "pipeline": self.pipeline}
        parameters = {name: value for name, value in given.items() if value is not None}
        return f"/?{urlencode({'window': self.window.value, **parameters})}"
