"""What Prometheus is told: counted here, or read out of the database when it asks."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

__all__ = ["CONTENT_TYPE_LATEST", "Metrics"]

# Texts that come from requests become labels: beyond so many they are all one.
_TARGETS = 200
_PIPELINES = 200
OTHER = "other"


class _BoundedLabels:
    """The first so many different texts, and one for all others."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def of(self, text: str) -> str:
        if text in self._known:
            return text
        if len(self._known) >= self._most:
            return OTHER
        self._known.add(text)
        return text


class Metrics:
    """What Prometheus is told, in a registry of its own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._targets = _BoundedLabels(_TARGETS)
        self._pipelines = _BoundedLabels(_PIPELINES)
        self._lookups = Counter(
            "tunebook_lookups",
            "Keys that were looked up, by outcome: hit, or the reason of the miss.",
            ["target", "pipeline", "outcome"],
            registry=self._registry,
        )

    def count_lookups(self, target: str, pipeline: str, outcome: str, keys: int) -> None:
        """Counts keys that were looked up; `outcome` is `hit` or the reason of a miss."""
        labels = self._targets.of(target), self._pipelines.of(pipeline), outcome
        self._lookups.labels(*labels).inc(keys)

    def render(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self._registry)
