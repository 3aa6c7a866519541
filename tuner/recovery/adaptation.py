"""Candidates for one program made from the traces of others that are near to it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from random import Random
from typing import Any

import tvm
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target as TvmTarget

from tunebook.cache.errors import UntrustedTraceError
from tunebook.cache.misses import MissReason
from tunebook.cache.records import Candidate, Source
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.llvm_targets import tvm_target
from tunebook.tuner.one_line import one_line
from tunebook.tuner.recovery.factors import UNLIMITED, nearest, repaired, sampled, still_holds
from tunebook.tuner.recovery.padding import pad
from tunebook.tuner.recovery.target_rules import TargetRules, rules_for
from tunebook.tuner.recovery.tensorised import intrinsics_of, untensorised, with_intrinsic
from tunebook.tuner.traces.replay import replay
from tunebook.tuner.traces.trace_steps import (
    Step,
    apply_steps,
    steps_of,
    trace_text,
    tvm_trace,
    with_limits,
    without_postprocs,
)
from tunebook.tuner.tvm_compat import silent_native_stderr

_log = logging.getLogger(__name__)

# The program is the same one: what was recorded for it may be replayed as it is.
_REPLAYED_AS_RECORDED = frozenset(
    {
        MissReason.EQUIVALENT_TARGET,
        MissReason.OTHER_COMPILER,
        MissReason.OTHER_CONSTANTS,
        MissReason.OTHER_TARGET,
        MissReason.UNVERIFIED,
        MissReason.EMULATED_ONLY,
        MissReason.ONLY_FAILURES,
    }
)


class Way(str, Enum):
    """How a trace was made to fit, as it is told in `Candidate.origin`."""

    AS_RECORDED = "as recorded"
    UNCHANGED = "unchanged"
    NEAREST = "nearest factors"
    PADDED = "padded"
    RESAMPLED = "re-sampled"
    RETENSORISED = "re-tensorised"
    UNTENSORISED = "untensorised"
    ANCHOR = "anchor"


@dataclass(frozen=True)
class NearTrace:
    """The JSON text of a record's trace, in what way its key is near, and in one line which record
    of which key it is."""

    trace: str
    reason: MissReason
    origin: str


def adapt(
    tir: str,
    target: TvmTarget | str,
    near: Sequence[NearTrace],
    *,
    source: Source,
    seed: int,
    limit: int,
) -> list[Candidate]:
    """At most `limit` candidates for a program, no module twice, in the order to measure them.

    `tir` is the program as TVM's JSON text, `target` TVM's target or a canonical text, `near` the
    traces, the nearest first; `seed` makes the random factors repeatable. All ways of the first
    trace come before those of the second, since which way wins differs from case to case. What
    does not fit is left out; a trace that cannot be used at all is, with a warning.
    """
    module = tvm.ir.load_json(tir)
    tvm_form = tvm_target(target) if isinstance(target, str) else target
    adapter = _Adapter(module, tvm_form, rules_for(module, tvm_form), seed)
    found: dict[str, Candidate] = {}
    with silent_native_stderr():
        for one in near:
            try:
                _add_candidates(found, adapter, one, source, limit)
            except UntrustedTraceError as error:
                _log.warning("%s is left out: %s", one.origin, error)
            except Exception as error:  # TVM raises whatever it likes; the others are not at fault
                _log.warning("%s is left out: %s", one.origin, one_line(error))
    return list(found.values())


def _add_candidates(
    found: dict[str, Candidate], adapter: _Adapter, near: NearTrace, source: Source, limit: int
) -> None:
    """Adds what a near trace gives to the candidates by their modules, until there are enough."""
    schedules = adapter.schedules(near)
    # Asked first: the next schedule is only made when it is taken.
    while len(found) < limit and (made := next(schedules, None)) is not None:
        way, schedule = made
        name = module_hash(schedule.mod)
        trace = trace_text(schedule)
        if name not in found and adapter.replays(trace, name):
            found[name] = Candidate(trace, name, source, f"{near.origin}, {way.value}")


@dataclass(frozen=True)
class _Adapter:
    """One program on one target."""

    module: Any
    target: Any
    rules: TargetRules
    seed: int

    def schedules(self, near: NearTrace) -> Iterator[tuple[Way, Schedule]]:
        """The schedules that a near trace gives, one for each way that works.

        Raises UntrustedTraceError for a trace that is refused.
        """
        recorded = steps_of(near.trace, self.module)
        for way, make in self._ways(near, recorded):
            try:
                schedule = make()
            except Exception as error:  # TVM raises whatever it likes where a trace does not fit
                _log.debug("%s does not fit %s: %s", near.origin, way.value, one_line(error))
                continue
            if schedule is not None:
                yield way, schedule

    def replays(self, trace: str, name: str) -> bool:
        """Whether a trace, read back, is allowed, needs nothing that the target lacks, and gives
        the same module: what is stored is the trace, and nothing else."""
        try:
            lacking = self._lacking(steps_of(trace))
            again = module_hash(replay(self.module, trace).mod)
        except Exception as error:
            _log.debug("an adapted trace does not replay: %s", one_line(error))
            return False
        return not lacking and again == name

    def _ways(
        self, near: NearTrace, recorded: tuple[Step, ...]
    ) -> Iterator[tuple[Way, Callable[[], Schedule | None]]]:
        """What can be tried with a trace, in order of promise."""
        lacking = self._lacking(recorded)
        bare = with_limits(without_postprocs(recorded), self.rules.limits)
        if near.reason in _REPLAYED_AS_RECORDED:
            if not lacking:
                yield Way.AS_RECORDED, partial(replay, self.module, near.trace)
                if near.reason in (MissReason.OTHER_TARGET, MissReason.OTHER_COMPILER):
                    yield Way.UNCHANGED, partial(self._tiled, bare, _unchanged)
        elif near.reason is MissReason.OTHER_FUSION:
            fitting = untensorised(bare) if lacking else bare
            if not lacking:
                yield Way.ANCHOR, partial(self._anchored, recorded)
            yield Way.ANCHOR, partial(self._anchored, fitting, finish=True)
        elif not lacking:
            yield from self._tilings(bare)
        for intrinsic in sorted(intrinsics_of(bare)):
            other = self.rules.counterpart(intrinsic)
            if other is not None:
                changed = with_intrinsic(bare, intrinsic, other)
                yield Way.RETENSORISED, partial(self._tiled, changed, _nearest)
        if intrinsics_of(bare) and (lacking or near.reason not in _REPLAYED_AS_RECORDED):
            yield Way.UNTENSORISED, partial(self._tiled, untensorised(bare), _nearest)

    def _tilings(
        self, steps: tuple[Step, ...]
    ) -> Iterator[tuple[Way, Callable[[], Schedule | None]]]:
        yield Way.UNCHANGED, partial(self._if_something_holds, steps)
        yield Way.PADDED, partial(self._padded, steps)
        yield Way.NEAREST, partial(self._tiled, steps, _nearest)
        chance = Random(self.seed)
        yield Way.RESAMPLED, partial(self._tiled, steps, partial(_resampled, chance=chance))

    def _tiled(
        self,
        steps: Sequence[Step],
        decide: Callable[[Step, int], Any],
        schedule: Schedule | None = None,
    ) -> Schedule | None:
        """The steps with tiles decided anew, then the target's own postprocessors."""
        if schedule is None:
            schedule = self._fresh()
        apply_steps(steps, schedule, decide)
        return schedule if self.rules.finish(schedule) else None

    def _if_something_holds(self, steps: Sequence[Step]) -> Schedule | None:
        """The unchanged trace, unless every tile of it would be repaired in silence."""
        held: list[bool] = []

        def decide(step: Step, extent: int) -> Any:
            held.append(still_holds(step.decision, extent))
            return _unchanged(step, extent)

        schedule = self._tiled(steps, decide)
        return schedule if any(held) or not held else None

    def _padded(self, steps: Sequence[Step]) -> Schedule | None:
        schedule = self._fresh()
        return self._tiled(pad(schedule, steps), _nearest, schedule)

    def _anchored(self, steps: Sequence[Step], *, finish: bool = False) -> Schedule | None:
        """What the trace does to the heaviest block, what surrounds it being inlined or moved."""
        schedule = self._fresh()
        ms.trace_apply.schedule_using_anchor_trace(schedule, tvm_trace(steps), self.target)
        return schedule if not finish or self.rules.finish(schedule) else None

    def _fresh(self) -> Schedule:
        return Schedule(self.module, seed=1 + self.seed % (2**31 - 2), error_render_level="fast")

    def _lacking(self, steps: Sequence[Step]) -> frozenset[str]:
        return intrinsics_of(steps) - self.rules.intrinsics


def _unchanged(step: Step, extent: int) -> Any:
    return repaired(step.decision, extent)


def _nearest(step: Step, extent: int) -> Any:
    return nearest(step.decision, extent, _innermost_limit(step))


def _resampled(step: Step, extent: int, *, chance: Random) -> Any:
    return sampled(step.decision, extent, _innermost_limit(step), chance=chance)


def _innermost_limit(step: Step) -> int:
    """What the second attribute of `SamplePerfectTile` limits the innermost factor to."""
    return int(step.attributes[1]) if step.kind == "SamplePerfectTile" else UNLIMITED
