"""What a cache of schedules is to those who build: a store here, or a coordinator elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Protocol

from tunebook.cache.keys import ScheduleKey, WorkloadKey
from tunebook.cache.likeness import NO_HINTS, LookupHints
from tunebook.cache.misses import LookupAnswer, Miss
from tunebook.cache.records import Model, StoredModel


class ScheduleCache(Protocol):
    """What `Store` and `Client` answer alike; Store's methods say what each does."""

    def lookup(
        self,
        keys: Sequence[ScheduleKey],
        *,
        accept_emulated: bool = False,
        hints: LookupHints = NO_HINTS,
    ) -> LookupAnswer: ...

    def explain(
        self,
        keys: Sequence[ScheduleKey],
        *,
        accept_emulated: bool = False,
        hints: LookupHints = NO_HINTS,
    ) -> tuple[Miss, ...]: ...

    def find_model(self, digest: str, shapes: str, target: str, compiler: str) -> Model | None: ...

    def find_workloads(
        self, workload_hash: str, buffers: str, compiler: str
    ) -> tuple[WorkloadKey, ...]: ...

    def models_holding(
        self, workloads: Sequence[WorkloadKey], target: str, limit: int = 16
    ) -> tuple[StoredModel, ...]: ...

    def close(self) -> None: ...

    def __enter__(self) -> ScheduleCache: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
