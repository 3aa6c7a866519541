"""The fastest trials of a workload among very many, found in one pass without holding them all."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class TraceAt:
    """A trial's run time, and where in the file of records its line begins."""

    seconds: float
    offset: int


class FastestTraces:
    """Keeps the `count` fastest of different traces, the earlier in the file where times agree."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._kept: dict[str, TraceAt] = {}

    def add(self, trace_hash: str, seconds: float, offset: int) -> None:
        new = TraceAt(seconds, offset)
        self._kept[trace_hash] = min(new, self._kept.get(trace_hash, new))
        if len(self._kept) >= 2 * self._count:
            self._kept = dict(self._fastest())

    def _fastest(self) -> list[tuple[str, TraceAt]]:
        return sorted(self._kept.items(), key=lambda item: item[1])[: self._count]

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where their lines begin, the fastest first."""
        return tuple(place.offset for _, place in self._fastest())
