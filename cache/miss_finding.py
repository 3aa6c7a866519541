"""Finds why a look-up missed.

The reason is the first of these that holds:

1. The key itself has records: `unverified` (a successful one that no board has verified, or one
   whose trace is refused), `emulated-only`, `only-failures`.
2. The same workload has a schedule on another target: `other-target`.
3. The same op and buffers have a schedule, but of another program or compiler: `never-tuned`, with
   that key as the nearest.
4. The same op and dtypes have a schedule at other extents: `other-shape`.
5. The same op and extents have a schedule with other dtypes: `other-dtype`.
6. Nothing of the kind: `never-tuned`.

Which of several is the nearest, distances.py says. Every query goes by an index and reads a
bounded number of rows, so a miss costs the same however much is stored.
"""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import Session

from tunebook.cache.buffers import Buffer, dtypes_text, log_elements, parse_buffers, shapes_text
from tunebook.cache.distances import differences, distance
from tunebook.cache.identities import find_ids, find_workload, key_of
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.likeness import LookupHints
from tunebook.cache.misses import Miss, MissReason
from tunebook.cache.tables import RecordRow, ScheduleRow, TargetRow, WorkloadRow

# Candidates for the nearest key that are looked at, on either side of the wanted size.
_CANDIDATES = 64


@dataclass
class _OwnRecords:
    """What became of the records of the wanted key itself."""

    real: int = 0
    emulated: int = 0
    failures: Counter[str] = field(default_factory=Counter)


class MissFinder:
    """Finds the reasons for the misses of one look-up, in its snapshot."""

    def __init__(
        self, session: Session, *, accept_emulated: bool, more_trials: int, hints: LookupHints
    ) -> None:
        self._session = session
        self._hints = hints
        self._accept_emulated = accept_emulated
        # A round's worth for each: enough for the search to leave its first guesses behind.
        self._more_trials = 16 * more_trials

    def find(self, key: ScheduleKey, refused: str | None) -> Miss:
        """The miss of a key; `refused` says which trace of it was not trusted, if one was."""
        if refused is not None:
            return self._own(key, MissReason.UNVERIFIED, f"a schedule is stored, but {refused}")
        return self._from_own_records(key) or self._from_others(key) or self._never_tuned(key)

    def _from_own_records(self, key: ScheduleKey) -> Miss | None:
        own = self._own_records(key)
        if own.real or (own.emulated and self._accept_emulated):
            count = own.real + own.emulated * self._accept_emulated
            return self._own(
                key,
                MissReason.UNVERIFIED,
                f"{_times(count, 'successful record')} stored, but none was verified on a board",
            )
        if own.emulated:
            return Miss(
                key=key,
                reason=MissReason.EMULATED_ONLY,
                nearest=key,
                differences=(),
                explanation=(
                    f"{_times(own.emulated, 'successful record')} stored, all of them from an "
                    "emulated board, whose timings say nothing about a real one; tune on a real "
                    "board, or accept them by name"
                ),
                mending_command=(
                    f"tunebook build MODEL --target {shlex.quote(key.target)} -o OUT "
                    "--accept-emulated"
                ),
            )
        if own.failures:
            classes = ", ".join(f"{count} {name}" for name, count in own.failures.most_common())
            return self._own(
                key,
                MissReason.ONLY_FAILURES,
                f"{_times(own.failures.total(), 'trial')} stored, and all failed: {classes}",
            )
        return None

    def _own_records(self, key: ScheduleKey) -> _OwnRecords:
        own = _OwnRecords()
        ids = find_ids(self._session, key)
        if ids is None:
            return own
        for emulated, error, count in self._session.execute(
            select(RecordRow.emulated, RecordRow.error, func.count())
            .where(RecordRow.workload_id == ids[0], RecordRow.target_id == ids[1])
            .group_by(RecordRow.emulated, RecordRow.error)
        ):
            if error is not None:
                own.failures[error] += count
            elif emulated:
                own.emulated += count
            else:
                own.real += count
        return own

    def _from_others(self, key: ScheduleKey) -> Miss | None:
        nearest = self._on_another_target(key)
        if nearest is not None:
            advice = f"; or, where that fits the board, use --target {shlex.quote(nearest.target)}"
            return self._other(
                key,
                MissReason.OTHER_TARGET,
                nearest,
                "for another target",
                advice,
            )
        try:
            buffers = parse_buffers(key.buffers)
        except ValueError:
            return None
        for reason, what, candidates in (
            (
                MissReason.NEVER_TUNED,
                "as another program of the same buffers",
                (self._same_buffers(key, buffers),),
            ),
            (MissReason.OTHER_SHAPE, "at another shape", self._same_dtypes(key, buffers)),
            (
                MissReason.OTHER_DTYPE,
                "with other dtypes",
                (self._same_shapes(key, buffers),),
            ),
        ):
            nearest = self._nearest(key, *candidates)
            if nearest is not None:
                return self._other(key, reason, nearest, what)
        return None

    def _on_another_target(self, key: ScheduleKey) -> ScheduleKey | None:
        workload = find_workload(self._session, key.workload)
        if workload is None:
            return None
        return _nearest_of(key, self._scheduled(WorkloadRow.id == workload))

    def _never_tuned(self, key: ScheduleKey) -> Miss:
        return Miss(
            key=key,
            reason=MissReason.NEVER_TUNED,
            nearest=None,
            differences=(),
            explanation=f"no {key.op} of this shape or another was ever tuned with this compiler",
            mending_command=self._tune(key),
        )

    def _own(self, key: ScheduleKey, reason: MissReason, explanation: str) -> Miss:
        return Miss(key, reason, key, (), explanation, self._tune(key))

    def _other(
        self,
        key: ScheduleKey,
        reason: MissReason,
        nearest: ScheduleKey,
        what: str,
        advice: str = "",
    ) -> Miss:
        found = differences(key, nearest)
        explanation = f"{key.op} was tuned only {what}: {'; '.join(map(str, found))}{advice}"
        return Miss(key, reason, nearest, found, explanation, self._tune(key))

    def _tune(self, key: ScheduleKey) -> str:
        target = shlex.quote(key.target)
        return f"tunebook tune MODEL --target {target} --more {self._more_trials}"

    def _nearest(self, key: ScheduleKey, *candidates: Select[Any]) -> ScheduleKey | None:
        """The nearest key with a schedule among workloads given by their ids."""
        stored: list[ScheduleKey] = []
        for ids in candidates:
            stored += self._scheduled(WorkloadRow.id.in_(select(ids.subquery().c.id)))
        return _nearest_of(key, stored)

    def _scheduled(self, condition: ColumnElement[bool]) -> list[ScheduleKey]:
        statement = (
            select(
                WorkloadRow.op,
                WorkloadRow.buffers,
                WorkloadRow.compiler,
                WorkloadRow.hash,
                TargetRow.text,
            )
            .join(ScheduleRow, ScheduleRow.workload_id == WorkloadRow.id)
            .join(TargetRow, TargetRow.id == ScheduleRow.target_id)
            .where(condition)
        )
        if not self._accept_emulated:
            statement = statement.where(ScheduleRow.emulated.is_(False))
        return [key_of(row, row.text) for row in self._session.execute(statement)]

    def _same_buffers(self, key: ScheduleKey, buffers: tuple[Buffer, ...]) -> Select[Any]:
        return (
            select(WorkloadRow.id)
            .where(
                WorkloadRow.op == key.op,
                WorkloadRow.shapes == shapes_text(buffers),
                WorkloadRow.buffers == key.buffers,
            )
            .limit(_CANDIDATES)
        )

    def _same_dtypes(
        self, key: ScheduleKey, buffers: tuple[Buffer, ...]
    ) -> tuple[Select[Any], Select[Any]]:
        """The next smaller and the next larger, by the number of elements in all buffers."""
        size = log_elements(buffers)
        same = select(WorkloadRow.id).where(
            WorkloadRow.op == key.op,
            WorkloadRow.dtypes == dtypes_text(buffers),
            WorkloadRow.compiler == key.compiler,
        )
        smaller = same.where(WorkloadRow.elements <= size).order_by(WorkloadRow.elements.desc())
        larger = same.where(WorkloadRow.elements > size).order_by(WorkloadRow.elements)
        return smaller.limit(_CANDIDATES), larger.limit(_CANDIDATES)

    def _same_shapes(self, key: ScheduleKey, buffers: tuple[Buffer, ...]) -> Select[Any]:
        return (
            select(WorkloadRow.id)
            .where(
                WorkloadRow.op == key.op,
                WorkloadRow.shapes == shapes_text(buffers),
                WorkloadRow.compiler == key.compiler,
            )
            .limit(_CANDIDATES)
        )


def _nearest_of(key: ScheduleKey, stored: list[ScheduleKey]) -> ScheduleKey | None:
    return min(stored, key=lambda other: (distance(key, other), other), default=None)


def _times(count: int, noun: str) -> str:
    return f"1 {noun} is" if count == 1 else f"{count} {noun}s are"
