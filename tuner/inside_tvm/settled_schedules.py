"""What is told when a stay in a TunebookDatabase ends: what missed, and what was never asked for.

It is raised, or given as warnings, as the terms of the stay say.
"""

from __future__ import annotations

from tunebook.cache.likeness import LookupHints
from tunebook.cache.misses import ScheduleMissError
from tunebook.tuner.inside_tvm.asked_schedules import AskedSchedules
from tunebook.tuner.inside_tvm.unasked_tasks import (
    UnaskedTasks,
    UnaskedTasksError,
    likely_unasked,
    unasked_of,
)
from tunebook.tuner.llvm_targets import target_features

_NOTHING_ASKED = (
    "TVM asked for no schedule at all: nothing inside the `with` applies a database; "
    "docs/inside-tvm.md says what does"
)
_WHICH_MODEL = (
    "if another model is compiled, which has some of these tasks, all is well: say which by model="
)


def settle(asked: AskedSchedules, flying: BaseException | None) -> list[str]:
    """Tells on leaving what there is to tell: raises it, or gives the warnings. `flying` is the
    exception that is under way.

    That is never lost: what is raised here has it as its cause, and one that ends the program
    (KeyboardInterrupt) goes on.
    """
    if flying is not None and not isinstance(flying, Exception):
        return []
    if asked.failure is not None:
        if flying is not asked.failure:
            raise asked.failure from flying
        return asked.refusals
    told = _told_at_the_end(asked) if flying is None else _told_misses(asked, flying)
    return [*asked.refusals, *told]


def settle_answer(asked: AskedSchedules) -> list[str]:
    """Tells of a single answer outside of any stay: raises for a miss, or gives the warnings."""
    return [*asked.refusals, *_told_misses(asked)]


def _told_at_the_end(asked: AskedSchedules) -> list[str]:
    """What the end of a stay tells that nothing cut short."""
    if not asked.was_asked:
        return _told(asked, UnaskedTasksError(_NOTHING_ASKED))
    if asked.terms.model is not None:
        return _told_unasked(asked, unasked_of(asked.terms.model, asked.keys))
    if asked.other_forms:
        return _told_unasked(asked, _likely_unasked(asked))
    if asked.misses:
        return _told_misses(asked)
    # A smaller model that was never stored asks like this too, so it is no error.
    unasked = _likely_unasked(asked)
    return [] if unasked is None else [f"{unasked}; {_WHICH_MODEL}"]


def _told_unasked(asked: AskedSchedules, unasked: UnaskedTasks | None) -> list[str]:
    if unasked is None:
        return _told_misses(asked)
    _explain(asked)
    return _told(asked, UnaskedTasksError(str(unasked), asked.misses, unasked))


def _likely_unasked(asked: AskedSchedules) -> UnaskedTasks | None:
    in_other_form = {form.key for form in asked.other_forms.values()}
    models = asked.terms.cache.models_holding(
        [key.workload for key in asked.keys | in_other_form], str(asked.terms.target)
    )
    return likely_unasked(models, asked.keys, in_other_form)


def _told_misses(asked: AskedSchedules, flying: BaseException | None = None) -> list[str]:
    if not asked.misses:
        return []
    _explain(asked)
    return _told(asked, ScheduleMissError(asked.misses), flying)


def _explain(asked: AskedSchedules) -> None:
    """Tells the misses as one look-up does: the command that mends them is for all of them."""
    terms = asked.terms
    likeness = {**(terms.model.hints.likeness if terms.model else {}), **asked.likeness}
    misses = terms.cache.explain(
        [miss.key for miss in asked.misses],
        accept_emulated=terms.accept_emulated,
        hints=LookupHints(likeness, {str(terms.target): target_features(terms.target)}),
    )
    # What was stored meanwhile is not in this build, and stays the miss that it was.
    asked.explain(misses)


def _told(
    asked: AskedSchedules, error: ScheduleMissError, flying: BaseException | None = None
) -> list[str]:
    if asked.terms.on_miss == "error":
        raise error from flying
    return [str(error)]
