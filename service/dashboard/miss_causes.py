"""Misses by their causes, as a page tells them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tunebook.cache.missed_keys import MissedGroup
from tunebook.cache.misses import Miss, MissReason
from tunebook.service.dashboard.moments import Moment
from tunebook.service.dashboard.target_labels import target_labels

_SHOWN_MISSES = 10

_IN_WORDS = {
    MissReason.EQUIVALENT_TARGET: "Tuned for an equivalent target",
    MissReason.OTHER_COMPILER: "Tuned by another compiler",
    MissReason.OTHER_CONSTANTS: "Tuned with other constants",
    MissReason.OTHER_ATTRIBUTES: "Tuned with other attributes",
    MissReason.OTHER_PIPELINE: "Tuned with another layout",
    MissReason.OTHER_FUSION: "Tuned with another fusion",
    MissReason.OTHER_TARGET: "Tuned for another target",
    MissReason.OTHER_SHAPE: "Tuned for another shape",
    MissReason.OTHER_DTYPE: "Tuned for another type",
    MissReason.ONLY_FAILURES: "Every trial failed",
    MissReason.UNVERIFIED: "Not verified here",
    MissReason.EMULATED_ONLY: "Measured on an emulated board only",
    MissReason.NEVER_TUNED: "Never tuned",
}


@dataclass(frozen=True)
class MissView:
    """A key that is missing; `nearest` is empty where nothing is near, or it is the key itself."""

    key: str
    nearest: str
    differences: tuple[str, ...]
    explanation: str


@dataclass(frozen=True)
class CauseView:
    """Keys that are missing for one cause, and the command that mends them all. `more` counts the
    keys beyond those in `misses`."""

    title: str
    cause: str
    number_of_keys: int
    times: int
    targets: tuple[str, ...]
    pipelines: tuple[str, ...]
    last: Moment
    mending_command: str
    misses: tuple[MissView, ...]
    more: int

    @property
    def keys(self) -> str:
        return "1 key" if self.number_of_keys == 1 else f"{self.number_of_keys:,} keys"

    @property
    def asked(self) -> str:
        return "missed once" if self.times == 1 else f"missed {self.times:,} times"


def cause_views(groups: Iterable[MissedGroup], labels: Mapping[str, str]) -> tuple[CauseView, ...]:
    """The causes in the order in which they come; `labels` names the targets that have rows."""
    return tuple(_cause_view(group, labels) for group in groups)


def _cause_view(found: MissedGroup, labels: Mapping[str, str]) -> CauseView:
    misses = found.group.misses
    targets = list(dict.fromkeys(miss.key.target for miss in misses))
    named = {**target_labels(targets), **labels}
    return CauseView(
        title=_IN_WORDS[found.group.reason],
        cause=found.group.cause,
        number_of_keys=len(misses),
        times=found.count,
        targets=tuple(named[target] for target in targets),
        pipelines=tuple(sorted({key.pipeline for key in found.keys})),
        last=Moment(found.last_at),
        mending_command=found.group.mending_command,
        misses=tuple(map(_miss_view, misses[:_SHOWN_MISSES])),
        more=max(0, len(misses) - _SHOWN_MISSES),
    )


def _miss_view(miss: Miss) -> MissView:
    is_itself = miss.nearest is None or miss.nearest == miss.key
    return MissView(
        key=str(miss.key),
        nearest="" if is_itself else str(miss.nearest),
        differences=tuple(map(str, miss.differences)),
        explanation=miss.explanation,
    )
