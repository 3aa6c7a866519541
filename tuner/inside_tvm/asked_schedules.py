"""What TVM asks for in one stay in a TunebookDatabase, answered and noted.

What there is to tell of it at the end, settled_schedules.py tells.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from tunebook.cache.buffers import buffers_text
from tunebook.cache.errors import ModelError, TargetError
from tunebook.cache.keys import ScheduleKey, WorkloadKey
from tunebook.cache.likeness import Likeness
from tunebook.cache.misses import Miss
from tunebook.cache.records import Model, Schedule
from tunebook.cache.remote.schedule_cache import ScheduleCache
from tunebook.cache.targets import Target, canonical_target
from tunebook.tuner.builds.on_miss import OnMiss
from tunebook.tuner.builds.replayed_records import replayed_record
from tunebook.tuner.compiler import compiler_text
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.inside_tvm.function_names import op_in_name
from tunebook.tuner.inside_tvm.other_forms import OtherForm, other_forms
from tunebook.tuner.one_line import one_line
from tunebook.tuner.splitting.likeness import likeness_of
from tunebook.tuner.splitting.program import ENTRY, arguments_of

_SCHEDULED = "tirx.is_scheduled"


@dataclass(frozen=True)
class Terms:
    """On which terms a database answers; `model` is the one that is compiled, if it is known."""

    cache: ScheduleCache
    target: Target
    on_miss: OnMiss
    accept_emulated: bool
    model: Model | None


class AskedSchedules:
    """The answers of one stay.

    `keys` are those that were looked up, `other_forms` what is stored of a program by the key that
    was asked for, `likeness` that of programs that were never stored, `failure` the first
    exception that was raised into TVM, `refusals` why functions were not looked up.
    """

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.keys: set[ScheduleKey] = set()
        self.other_forms: dict[ScheduleKey, OtherForm] = {}
        self.likeness: dict[WorkloadKey, Likeness] = {}
        self.was_asked = False
        self.failure: Exception | None = None
        self.refusals: list[str] = []
        self._answers: dict[str, Schedule | Miss] = {}  # by workload hash

    @property
    def misses(self) -> tuple[Miss, ...]:
        """What was asked for in vain so far, in the order in which it was asked for."""
        return tuple(one for one in self._answers.values() if isinstance(one, Miss))

    def record(self, module: Any, target: Any, function: str) -> Any:
        """The record of a normalised module for TVM, or None for a miss.

        What is raised here crosses TVM as a bare RuntimeError, so it is kept to be raised again.
        """
        self.was_asked = True
        try:
            return self._record(module, target, function)
        except Exception as error:
            self.failure = self.failure or error
            raise

    def explain(self, misses: Iterable[Miss]) -> None:
        """Puts these in the place of the misses of their keys, with the other form in which a
        program is stored."""
        told = {miss.key: miss for miss in misses}
        for workload_hash, one in self._answers.items():
            if isinstance(one, Miss):
                miss = told.get(one.key, one)
                form = self.other_forms.get(one.key)
                self._answers[workload_hash] = form.explain(miss) if form else miss

    def _record(self, module: Any, target: Any, function: str) -> Any:
        if (module[ENTRY].attrs or {}).get(_SCHEDULED, False):
            # Applied already: TVM's pipeline for static shapes applies its database twice.
            return None
        self._require_target(target)
        workload_hash = module_hash(module)
        if workload_hash not in self._answers:
            buffers = self._buffers(module, function)
            if buffers is None:
                return None
            keys = self._keys(module, workload_hash, buffers, function)
            self._answers[workload_hash] = self._look_up(keys)
        answer = self._answers[workload_hash]
        if isinstance(answer, Miss):
            return None
        return replayed_record(module, answer, target)

    def _require_target(self, target: Any) -> None:
        """TVM's own databases ignore the target (apache/tvm#15549)."""
        own = str(self.terms.target)
        try:
            asked = str(canonical_target(str(target)))
        except TargetError as error:
            raise TargetError(
                f"TVM compiles for another target than {own}, which this database answers for: "
                f"{error}"
            ) from error
        if asked != own:
            raise TargetError(
                f"TVM compiles for {asked}, and this database answers for {own}; compile for its "
                f"`target`, or make a database for the other"
            )

    def _buffers(self, module: Any, function: str) -> str | None:
        """The function's buffers as keys spell them; None where it can have no key and that is no
        error. Raises ModelError."""
        try:
            return buffers_text(arguments_of(module))
        except Exception as error:
            # Not only a ModelError: a function that somebody wrote may take anything.
            refusal = ModelError(f"function {function} cannot be looked up: {one_line(error)}")
            if self.terms.on_miss == "error":
                raise refusal from error
            self.refusals.append(str(refusal))
            return None

    def _look_up(self, keys: list[ScheduleKey]) -> Schedule | Miss:
        self.keys.update(keys)
        answer = self.terms.cache.lookup(keys, accept_emulated=self.terms.accept_emulated)
        if answer.hits:
            return min(answer.hits.values(), key=lambda schedule: schedule.seconds)
        return answer.misses[0]

    def _keys(
        self, module: Any, workload_hash: str, buffers: str, function: str
    ) -> list[ScheduleKey]:
        """TVM gives the function's name, from which its operators cannot be told for sure; so keys
        are found by all else, and the op is guessed of what was never stored."""
        known = self._known(workload_hash, buffers)
        if not known:
            known = (self._unknown(module, workload_hash, buffers, function),)
        return [key.on(str(self.terms.target)) for key in known]

    def _unknown(self, module: Any, workload_hash: str, buffers: str, function: str) -> WorkloadKey:
        """The key of a program that was never stored, and what can be known to explain its miss."""
        key = WorkloadKey(op_in_name(function), buffers, compiler_text(), workload_hash)
        target = str(self.terms.target)
        for form, differences in other_forms(module):
            stored = self._known(module_hash(form), buffers)
            if stored:
                key = replace(key, op=stored[0].op)
                self.other_forms[key.on(target)] = OtherForm(stored[0].on(target), differences)
                break
        self.likeness[key] = likeness_of(module, "")
        return key

    def _known(self, workload_hash: str, buffers: str) -> tuple[WorkloadKey, ...]:
        model = self.terms.model
        own = (key.workload for key in model.keys) if model else ()
        return tuple(
            key for key in own if key.hash == workload_hash
        ) or self.terms.cache.find_workloads(workload_hash, buffers, compiler_text())
