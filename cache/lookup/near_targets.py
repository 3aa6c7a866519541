"""The stored targets near a wanted one: equivalent ones first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from tunebook.cache.likeness import LookupHints
from tunebook.cache.lookup.distances import target_distance
from tunebook.cache.lookup.relations import relation_of_targets
from tunebook.cache.misses import MissReason
from tunebook.cache.storage.tables import TargetRow

# Stored targets that are looked at: the newest, beside the equivalent ones.
_LOOKED_AT = 256
# Targets without the wanted one's features in which schedules are looked for.
_OTHERS = 16


@dataclass(frozen=True)
class NearTarget:
    """A stored target; `relation` is None for the wanted one itself."""

    id: int
    text: str
    relation: MissReason | None


class NearTargets:
    """Reads the targets once for a whole look-up."""

    def __init__(self, session: Session, hints: LookupHints) -> None:
        self._session = session
        self._hints = hints
        self._stored: list[tuple[int, str, str]] | None = None
        self._found: dict[str, tuple[list[NearTarget], list[NearTarget]]] = {}

    def of(self, text: str) -> tuple[list[NearTarget], list[NearTarget]]:
        """The wanted target with its equivalents, and the nearest others, nearest first."""
        if text not in self._found:
            self._found[text] = self._near(text)
        return self._found[text]

    def _near(self, text: str) -> tuple[list[NearTarget], list[NearTarget]]:
        own = self._session.execute(
            select(TargetRow.id, TargetRow.features).where(TargetRow.text == text)
        ).first()
        features = self._hints.features.get(text) or (own.features if own else "")
        near = [] if own is None else [NearTarget(own.id, text, None)]
        others: list[NearTarget] = []
        for number, other, theirs in sorted(
            self._candidates(features), key=lambda row: target_distance(text, row[1])
        ):
            if other == text:
                continue
            relation = relation_of_targets(text, other, features, theirs)
            is_equivalent = relation is MissReason.EQUIVALENT_TARGET
            (near if is_equivalent else others).append(NearTarget(number, other, relation))
        return near, others[:_OTHERS]

    def _candidates(self, features: str) -> set[tuple[int, str, str]]:
        """Ids, texts and features."""
        columns = select(TargetRow.id, TargetRow.text, TargetRow.features)
        newest = columns.order_by(TargetRow.id.desc()).limit(_LOOKED_AT)
        if self._stored is None:
            self._stored = self._read(newest)
        if not features:
            return set(self._stored)
        return {*self._stored, *self._read(newest.where(TargetRow.features == features))}

    def _read(self, statement: Any) -> list[tuple[int, str, str]]:
        return [
            (row.id, row.text, self._hints.features.get(row.text) or row.features)
            for row in self._session.execute(statement)
        ]
