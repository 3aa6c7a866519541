"""Misses by their causes, as a page tells them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.misses import Miss, MissReason
from tunebook.cache.statistics.missed_keys import MissedGroup
from tunebook.service.dashboard.moments import Moment
from tunebook.service.dashboard.target_labels import target_labels
from tunebook.service.mending import CommandOptions, fill_in

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
    """A key that is missing: its op and buffers, and the rest of it as `wanted`. `nearest` is the
    nearest stored key, of which op and buffers are left out where they are the same; empty where
    nothing is near, or it is the key itself. `told` says how they differ, or else why it misses."""

    workload: str
    wanted: str
    nearest: str
    told: str


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
    def names_a_model(self) -> bool:
        """Whether the command leaves out which file the model is: who missed knows it."""
        return "MODEL" in self.mending_command.split()

    @property
    def keys(self) -> str:
        return "1 key" if self.number_of_keys == 1 else f"{self.number_of_keys:,} keys"

    @property
    def asked(self) -> str:
        return "missed once" if self.times == 1 else f"missed {self.times:,} times"


def cause_views(
    groups: Iterable[MissedGroup], labels: Mapping[str, str], address: str
) -> tuple[CauseView, ...]:
    """The causes in the order in which they come; `labels` names the targets that have rows, and
    `address` is where commands reach this coordinator."""
    return tuple(_cause_view(group, labels, address) for group in groups)


def _cause_view(found: MissedGroup, labels: Mapping[str, str], address: str) -> CauseView:
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
        mending_command=_command_here(found.group.mending_command, address, len(misses)),
        misses=tuple(map(_miss_view, misses[:_SHOWN_MISSES])),
        more=max(0, len(misses) - _SHOWN_MISSES),
    )


def _command_here(command: str, address: str, misses: int) -> str:
    """The command as it mends so many misses of this coordinator; who runs it knows the model."""
    options = CommandOptions(Path("MODEL"), Path("OUT"), server=address)
    try:
        return fill_in(command, options, misses)
    except ValueError:
        # Quotes without an end: no command of ours.
        return command


def _miss_view(miss: Miss) -> MissView:
    key, nearest = miss.key, miss.nearest
    is_near = nearest is not None and nearest != key
    return MissView(
        workload=f"{key.op} | {key.buffers}",
        wanted=_rest(key),
        nearest=_nearest(key, nearest) if nearest is not None and is_near else "",
        told=("; ".join(map(str, miss.differences)) if is_near else "") or miss.explanation,
    )


def _rest(key: ScheduleKey) -> str:
    return f"{key.target} | {key.compiler} | {key.workload_hash}"


def _nearest(key: ScheduleKey, nearest: ScheduleKey) -> str:
    same = (nearest.op, nearest.buffers) == (key.op, key.buffers)
    return _rest(nearest) if same else str(nearest)
