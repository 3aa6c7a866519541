"""The stored keys near a wanted one, in one snapshot.

First come the stored programs that may be related (near_queries.py says how they are found), then
on which targets they have something: on the wanted target and its equivalents all of them; on
others (near_targets.py) only the nearest `_ELSEWHERE` programs, and only where nothing nearer is
found. So a miss costs the same however much is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.likeness import Likeness, LookupHints
from tunebook.cache.lookup.distances import program_distance, target_distance
from tunebook.cache.lookup.near_queries import (
    PAIRS,
    PROGRAMS,
    Holding,
    parameters,
    program_of,
)
from tunebook.cache.lookup.near_targets import NearTarget, NearTargets
from tunebook.cache.lookup.relations import Program, nearness, reason_of, relation_of_programs
from tunebook.cache.lookup.wanted_keys import WantedKey
from tunebook.cache.misses import MissReason

# Programs that are looked for on targets other than the wanted one and its equivalents.
_ELSEWHERE = 32
_NO_NEARER_ELSEWHERE = nearness(None, MissReason.OTHER_TARGET)


@dataclass(frozen=True)
class NearKey:
    """A stored key, how it is related to the wanted one, and its rows."""

    reason: MissReason
    key: ScheduleKey
    likeness: Likeness
    workload_id: int
    target_id: int


@dataclass(frozen=True)
class _Candidate:
    """A stored program; `relation` is None for the wanted one itself."""

    id: int
    program: Program
    relation: MissReason | None
    distance: tuple[Any, ...]


class NearWorkloads:
    """Finds near keys for the misses of one look-up."""

    def __init__(self, session: Session, hints: LookupHints, holding: Holding) -> None:
        self._session = session
        self._targets = NearTargets(session, hints)
        self._pairs = PAIRS[holding]

    def nearest(self, wanted: WantedKey, count: int) -> list[NearKey]:
        """At most `count` keys other than the wanted one, nearest first."""
        target = wanted.key.target
        candidates = self._candidates(wanted.program)
        here, elsewhere = self._targets.of(target)
        found = self._held(target, candidates, here)
        nearer = sum(order[0] < _NO_NEARER_ELSEWHERE for order, _ in found)
        if nearer < count:
            found += self._held(target, candidates[:_ELSEWHERE], elsewhere)
        found.sort(key=lambda one: one[0])
        return [near for _, near in found[:count]]

    def _held(
        self, target: str, candidates: list[_Candidate], targets: list[NearTarget]
    ) -> list[tuple[tuple[Any, ...], NearKey]]:
        """The keys among these that hold something, each with how near it is."""
        if not candidates or not targets:
            return []
        programs = {candidate.id: candidate for candidate in candidates}
        places = {near.id: near for near in targets}
        rows = self._session.execute(
            self._pairs, {"workloads": list(programs), "targets": list(places)}
        )
        return [
            _near_key(target, programs[workload_id], places[target_id])
            for workload_id, target_id, held in rows
            if held and (programs[workload_id].relation or places[target_id].relation)
        ]

    def _candidates(self, wanted: Program) -> list[_Candidate]:
        """The related programs that are stored, nearest first."""
        rows = {row.id: row for row in self._session.execute(PROGRAMS, parameters(wanted)).all()}
        found = []
        for row in rows.values():
            program = program_of(row)
            same = program.key == wanted.key
            relation = None if same else relation_of_programs(wanted, program)
            if same or relation is not None:
                distance = (
                    nearness(relation, None) if relation else -1,
                    *program_distance(wanted, program),
                )
                found.append(_Candidate(row.id, program, relation, distance))
        return sorted(found, key=lambda candidate: candidate.distance)


def _near_key(
    wanted: str, candidate: _Candidate, target: NearTarget
) -> tuple[tuple[Any, ...], NearKey]:
    order = (
        nearness(candidate.relation, target.relation),
        target_distance(wanted, target.text),
        candidate.distance,
    )
    return order, NearKey(
        reason=reason_of(candidate.relation, target.relation),
        key=candidate.program.key.on(target.text),
        likeness=candidate.program.likeness,
        workload_id=candidate.id,
        target_id=target.id,
    )
