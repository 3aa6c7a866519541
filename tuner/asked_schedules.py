"""What TVM asks for in one stay in a TunebookDatabase, answered and accounted for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tunebook.cache.buffers import buffers_text
from tunebook.cache.errors import ModelError, TargetError
from tunebook.cache.keys import ScheduleKey, WorkloadKey
from tunebook.cache.likeness import Likeness, LookupHints
from tunebook.cache.misses import Miss, ScheduleMissError
from tunebook.cache.records import Model, Schedule
from tunebook.cache.store import Store
from tunebook.cache.targets import Target, canonical_target
from tunebook.tuner.compiler import compiler_text
from tunebook.tuner.function_names import op_in_name
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.likeness import likeness_of
from tunebook.tuner.llvm_targets import target_features
from tunebook.tuner.on_miss import OnMiss
from tunebook.tuner.one_line import one_line
from tunebook.tuner.other_forms import OtherForm, other_forms
from tunebook.tuner.program import arguments_of
from tunebook.tuner.replayed_records import replayed_record
from tunebook.tuner.unasked_tasks import (
    UnaskedTasks,
    UnaskedTasksError,
    likely_unasked,
    unasked_of,
)

_SCHEDULED = "tirx.is_scheduled"
_ENTRY = "main"
_NOTHING_ASKED = (
    "TVM asked for no schedule at all: nothing inside the `with` applies a database; "
    "docs/inside-tvm.md says what does"
)
_WHICH_MODEL = (
    "if another model is compiled, which has some of these tasks, all is well: say which by model="
)


@dataclass(frozen=True)
class Terms:
    """On which terms a database answers; `model` is the one that is compiled, if it is known."""

    cache: Store
    target: Target
    on_miss: OnMiss
    accept_emulated: bool
    model: Model | None


class AskedSchedules:
    """The answers of one stay, and what is to be told of them at its end."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._answers: dict[str, Schedule | Miss] = {}  # by workload hash
        self._asked: set[ScheduleKey] = set()
        self._other_forms: dict[ScheduleKey, OtherForm] = {}  # by the key that was asked for
        self._likeness: dict[WorkloadKey, Likeness] = {}  # of programs that were never stored
        self._was_asked = False
        self._failure: Exception | None = None
        self._warnings: list[str] = []

    @property
    def misses(self) -> tuple[Miss, ...]:
        """What was asked for in vain so far, in the order in which it was asked for."""
        return tuple(one for one in self._answers.values() if isinstance(one, Miss))

    def record(self, module: Any, target: Any, function: str) -> Any:
        """The record of a normalised module for TVM, or None for a miss.

        What is raised here crosses TVM as a bare RuntimeError, so it is kept to be raised again.
        """
        self._was_asked = True
        try:
            return self._record(module, target, function)
        except Exception as error:
            self._failure = self._failure or error
            raise

    def settle_answer(self) -> list[str]:
        """Tells of a single answer outside of any stay: raises for a miss, or gives the warnings,
        as the terms say."""
        self._tell_misses(None)
        return self._warnings

    def settle(self, flying: BaseException | None) -> list[str]:
        """Tells on leaving what there is to tell: raises it, or gives the warnings, as the terms
        say. `flying` is the exception that is under way.

        That is never lost: what is raised here has it as its cause, and one that ends the program
        (KeyboardInterrupt) goes on.
        """
        if flying is not None and not isinstance(flying, Exception):
            return []
        if self._failure is not None:
            if flying is not self._failure:
                raise self._failure from flying
        elif flying is None:
            self._tell_all()
        else:
            self._tell_misses(flying)
        return self._warnings

    def _record(self, module: Any, target: Any, function: str) -> Any:
        if (module[_ENTRY].attrs or {}).get(_SCHEDULED, False):
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
        return replayed_record(module, answer.key, answer, target)

    def _require_target(self, target: Any) -> None:
        """TVM's own databases ignore the target (apache/tvm#15549)."""
        own = str(self._terms.target)
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
            if self._terms.on_miss == "error":
                raise refusal from error
            self._warnings.append(str(refusal))
            return None

    def _look_up(self, keys: list[ScheduleKey]) -> Schedule | Miss:
        self._asked.update(keys)
        answer = self._terms.cache.lookup(keys, accept_emulated=self._terms.accept_emulated)
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
        return [key.on(str(self._terms.target)) for key in known]

    def _unknown(self, module: Any, workload_hash: str, buffers: str, function: str) -> WorkloadKey:
        """The key of a program that was never stored, and what can be known to explain its miss."""
        key = WorkloadKey(op_in_name(function), buffers, compiler_text(), workload_hash)
        target = str(self._terms.target)
        for form, differences in other_forms(module):
            stored = self._known(module_hash(form), buffers)
            if stored:
                key = replace(key, op=stored[0].op)
                self._other_forms[key.on(target)] = OtherForm(stored[0].on(target), differences)
                break
        self._likeness[key] = likeness_of(module, "")
        return key

    def _known(self, workload_hash: str, buffers: str) -> tuple[WorkloadKey, ...]:
        model = self._terms.model
        own = (key.workload for key in model.keys) if model else ()
        return tuple(
            key for key in own if key.hash == workload_hash
        ) or self._terms.cache.find_workloads(workload_hash, buffers, compiler_text())

    def _explain(self) -> None:
        """Tells the misses as one look-up does: the command that mends them is for all of them."""
        target = self._terms.target
        model = self._terms.model
        likeness = {**(model.hints.likeness if model else {}), **self._likeness}
        answer = self._terms.cache.lookup(
            [miss.key for miss in self.misses],
            accept_emulated=self._terms.accept_emulated,
            hints=LookupHints(likeness, {str(target): target_features(target)}),
        )
        # What was stored meanwhile is not in this build, and stays the miss that it was.
        told = {miss.key: miss for miss in answer.misses}
        for workload_hash, one in self._answers.items():
            if isinstance(one, Miss):
                miss = told.get(one.key, one)
                form = self._other_forms.get(one.key)
                self._answers[workload_hash] = form.explain(miss) if form else miss

    def _tell_all(self) -> None:
        """What the end of a stay tells that nothing cut short."""
        if not self._was_asked:
            self._tell(UnaskedTasksError(_NOTHING_ASKED), None)
        elif self._terms.model is not None:
            self._tell_unasked(unasked_of(self._terms.model, self._asked))
        elif self._other_forms:
            self._tell_unasked(self._likely_unasked())
        elif self.misses:
            self._tell_misses(None)
        else:
            # A smaller model that was never stored asks like this too, so it is no error.
            unasked = self._likely_unasked()
            if unasked is not None:
                self._warnings.append(f"{unasked}; {_WHICH_MODEL}")

    def _tell_unasked(self, unasked: UnaskedTasks | None) -> None:
        if unasked is None:
            self._tell_misses(None)
        else:
            self._explain()
            self._tell(UnaskedTasksError(str(unasked), self.misses, unasked), None)

    def _likely_unasked(self) -> UnaskedTasks | None:
        in_other_form = {form.key for form in self._other_forms.values()}
        models = self._terms.cache.models_holding(
            [key.workload for key in self._asked | in_other_form], str(self._terms.target)
        )
        return likely_unasked(models, self._asked, in_other_form)

    def _tell_misses(self, flying: BaseException | None) -> None:
        if self.misses:
            self._explain()
            self._tell(ScheduleMissError(self.misses), flying)

    def _tell(self, error: ScheduleMissError, flying: BaseException | None) -> None:
        if self._terms.on_miss == "error":
            raise error from flying
        self._warnings.append(str(error))
