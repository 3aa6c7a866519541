"""Candidates for a task from what is known already: traces of near workloads, adapted to it."""

from __future__ import annotations

import logging
from collections.abc import Collection

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.lookup.near_schedules import NearSchedules
from tunebook.cache.records import Candidate, Source
from tunebook.cache.store import Store
from tunebook.tuner.one_line import one_line
from tunebook.tuner.recovery.adaptation import NearTrace, adapt
from tunebook.workers.rounds.log_members import members_of

_log = logging.getLogger(__name__)

# Of each near workload: its best traces say most, and the next differ little from them.
_TRACES_OF_EACH = 4


class NearCandidates:
    """Adapts near traces for boards of one kind; `seed` makes what is re-sampled repeatable."""

    def __init__(self, store: Store, *, emulated: bool, seed: int) -> None:
        self._store = store
        self._emulated = emulated
        self._seed = seed

    def near(self, key: ScheduleKey) -> tuple[NearSchedules, ...]:
        """What is stored near a key, nearest first."""
        return self._store.near(key, emulated=self._emulated, limit=_TRACES_OF_EACH)

    def adapted(
        self,
        key: ScheduleKey,
        near: tuple[NearSchedules, ...],
        source: Source,
        limit: int,
        known: Collection[str],
    ) -> list[Candidate]:
        """At most `limit` candidates whose modules are not in `known`, most promising first; none
        where TVM gives up."""
        traces = [
            NearTrace(record.candidate.trace, one.reason, f"record {record.id} of {one.key}")
            for one in near
            for record in one.records
        ]
        if not traces:
            return []
        tir = self._store.workload(key.workload).tir
        most = limit + len(known)
        try:
            made = adapt(tir, key.target, traces, source=source, seed=self._seed, limit=most)
        except Exception as error:  # TVM raises whatever it likes, and only this task is at fault
            _log.warning(
                "%s: no near trace could be adapted: %s",
                key,
                one_line(error),
                extra=members_of(key),
            )
            return []
        return [one for one in made if one.module_hash not in known][:limit]
