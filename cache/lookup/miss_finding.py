"""Finds why a look-up missed, and says so.

What became of the key's own records comes first: `unverified` (a successful one that no board has
verified, one that was imported, or one whose trace is refused), `emulated-only`, `only-failures`.
Where they all failed, a schedule of the same program for an equivalent target, by another compiler
or with other constants comes before them: its trace is expected to serve as it is.

Else the nearest key with a schedule that could be served is the reason, as relations.py relates it
and distances.py ranks it; and where there is none, `never-tuned`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.likeness import LookupHints
from tunebook.cache.lookup.distances import differences
from tunebook.cache.lookup.near_queries import Holding
from tunebook.cache.lookup.near_workloads import NearKey, NearWorkloads
from tunebook.cache.lookup.own_records import OwnRecords, own_records
from tunebook.cache.lookup.wanted_keys import WantedKey, wanted_keys
from tunebook.cache.mending_trials import TRIALS_A_MISS, more
from tunebook.cache.misses import Difference, Miss, MissReason
from tunebook.cache.records import Source

_HOW_TUNED = {
    MissReason.EQUIVALENT_TARGET: "under another text for the same features of LLVM",
    MissReason.OTHER_COMPILER: "by another compiler",
    MissReason.OTHER_CONSTANTS: "with other constants",
    MissReason.OTHER_ATTRIBUTES: "with other attributes",
    MissReason.OTHER_PIPELINE: "in another layout or packing",
    MissReason.OTHER_FUSION: "fused with other operators",
    MissReason.OTHER_TARGET: "for another target",
    MissReason.OTHER_SHAPE: "at another shape",
    MissReason.OTHER_DTYPE: "with other dtypes",
}
# Reasons that a near trace does not mend: there is none, or it fits another layout.
_MENDED_BY_SEARCH = (
    MissReason.ONLY_FAILURES,
    MissReason.NEVER_TUNED,
    MissReason.OTHER_PIPELINE,
)
_BEFORE_FAILURES = (
    MissReason.EQUIVALENT_TARGET,
    MissReason.OTHER_COMPILER,
    MissReason.OTHER_CONSTANTS,
)
_IMPORTED = Difference("source", "measured", Source.IMPORT.value)


@dataclass(frozen=True)
class _Finding:
    """A miss before it is known how many there are."""

    key: ScheduleKey
    reason: MissReason
    explanation: str
    nearest: ScheduleKey | None = None
    differences: tuple[Difference, ...] = ()
    is_refused: bool = False

    @property
    def is_mended_by_search(self) -> bool:
        return self.reason in _MENDED_BY_SEARCH or self.is_refused

    def as_miss(self, more_trials: int) -> Miss:
        target = shlex.quote(self.key.target)
        command = f"tunebook migrate MODEL --target {target}"
        if self.is_mended_by_search:
            command = f"tunebook tune MODEL --target {target} {more(more_trials)}"
        return Miss(
            self.key, self.reason, self.nearest, self.differences, self.explanation, command
        )


class MissFinder:
    """Finds the reasons for the misses of one look-up, in its snapshot."""

    def __init__(self, session: Session, *, accept_emulated: bool, hints: LookupHints) -> None:
        self._session = session
        self._hints = hints
        self._accept_emulated = accept_emulated
        holding = Holding.SERVED_OR_EMULATED if accept_emulated else Holding.SERVED
        self._near = NearWorkloads(session, hints, holding)

    def find(
        self, keys: Sequence[ScheduleKey], refused: Mapping[ScheduleKey, str]
    ) -> tuple[Miss, ...]:
        """The misses of these keys, in their order; `refused` says of which a trace was not
        trusted, and why."""
        wanted = wanted_keys(self._session, keys, self._hints)
        own = own_records(self._session, wanted)
        found = [
            _of_refused(one.key, refused[one.key])
            if one.key in refused
            else self._find(one, own.get(one.key, OwnRecords()))
            for one in wanted
        ]
        more_trials = TRIALS_A_MISS * sum(finding.is_mended_by_search for finding in found)
        return tuple(finding.as_miss(more_trials) for finding in found)

    def _find(self, wanted: WantedKey, own: OwnRecords) -> _Finding:
        mine = _of_own_records(wanted.key, own, self._accept_emulated)
        if mine is not None and mine.reason is not MissReason.ONLY_FAILURES:
            return mine
        nearest = next(iter(self._near.nearest(wanted, 1)), None)
        if mine is not None and (nearest is None or nearest.reason not in _BEFORE_FAILURES):
            return mine
        if nearest is None:
            return _never_tuned(wanted.key)
        theirs = _of_near_key(wanted, nearest)
        if mine is None:
            return theirs
        return replace(theirs, explanation=f"{theirs.explanation}; of its own, {mine.explanation}")


def _of_refused(key: ScheduleKey, why: str) -> _Finding:
    told = f"a schedule is stored, but {why}"
    return _Finding(key, MissReason.UNVERIFIED, told, key, is_refused=True)


def _of_own_records(key: ScheduleKey, own: OwnRecords, accept_emulated: bool) -> _Finding | None:
    unverified = own.real + own.emulated * accept_emulated
    if unverified:
        told = f"{_are(unverified, 'successful record')} stored, but none was verified on a board"
        return _Finding(key, MissReason.UNVERIFIED, told, key)
    if own.imported:
        told = f"{_are(own.imported, 'record')} imported, and none was measured here"
        return _Finding(key, MissReason.UNVERIFIED, told, key, (_IMPORTED,))
    if own.emulated:
        told = (
            f"{_are(own.emulated, 'successful record')} stored, all of them from an emulated "
            "board, whose timings say nothing about a real one; measure them on a real board, or "
            "accept them by name with --accept-emulated"
        )
        return _Finding(key, MissReason.EMULATED_ONLY, told, key)
    if own.failures:
        classes = ", ".join(f"{count} {name}" for name, count in own.failures.most_common())
        told = f"{_are(own.failures.total(), 'trial')} stored, and all failed: {classes}"
        return _Finding(key, MissReason.ONLY_FAILURES, told, key)
    return None


def _of_near_key(wanted: WantedKey, near: NearKey) -> _Finding:
    key = wanted.key
    found = differences(key, near.key, wanted.program.likeness, near.likeness)
    told = f"{key.op} was tuned only {_how_tuned(key, near, found)}: {'; '.join(map(str, found))}"
    if key.workload == near.key.workload:
        target = shlex.quote(near.key.target)
        told += f"; or, where that fits the board, use --target {target}"
    return _Finding(key, near.reason, told, near.key, found)


def _how_tuned(key: ScheduleKey, near: NearKey, found: Sequence[Difference]) -> str:
    if near.reason is MissReason.OTHER_CONSTANTS and near.key.workload_hash == key.workload_hash:
        return "under another name of the same program"
    tells_attributes = any(one.field.startswith("attributes.") for one in found)
    if near.reason is MissReason.OTHER_ATTRIBUTES and not tells_attributes:
        return "as another program of the same buffers"
    return _HOW_TUNED[near.reason]


def _never_tuned(key: ScheduleKey) -> _Finding:
    told = f"no {key.op} of this shape or another was ever tuned with this compiler"
    return _Finding(key, MissReason.NEVER_TUNED, told)


def _are(count: int, noun: str) -> str:
    return f"1 {noun} is" if count == 1 else f"{count} {noun}s are"
