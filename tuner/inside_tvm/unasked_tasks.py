"""Tasks that TVM should have asked for and did not: a schedule that nobody asks for is a miss that
nobody sees."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.misses import Miss, ScheduleMissError
from tunebook.cache.records import Model, StoredModel

_NAMED = 3
_DIGEST = 12  # as many digits tell models apart for a reader


@dataclass(frozen=True)
class UnaskedTasks:
    """The keys of a model that were not asked for, of so many in all."""

    digest: str
    shapes: str
    total: int
    keys: tuple[ScheduleKey, ...]

    def __str__(self) -> str:
        first = "; ".join(str(key) for key in self.keys[:_NAMED])
        return (
            f"TVM never asked for {len(self.keys)} of the {self.total} tasks of model "
            f"{self.digest[:_DIGEST]} ({self.shapes}), first {first}"
        )


class UnaskedTasksError(ScheduleMissError):
    """Tasks were never asked for, so their schedules are not in the build.

    `unasked` says which, where the model is known; `misses` what was asked for in vain besides.
    """

    def __init__(
        self, told: str, misses: Sequence[Miss] = (), unasked: UnaskedTasks | None = None
    ) -> None:
        super().__init__(misses)
        self.unasked = unasked
        self.args = (f"{told}; {self}" if misses else told,)


def unasked_of(model: Model | StoredModel, asked: Collection[ScheduleKey]) -> UnaskedTasks | None:
    """What was not asked for of a model that is known to be the one."""
    keys = tuple(sorted(set(model.keys) - set(asked)))
    if not keys:
        return None
    return UnaskedTasks(model.digest, model.shapes, len(set(model.keys)), keys)


def likely_unasked(
    models: Sequence[StoredModel],
    asked: Collection[ScheduleKey],
    in_other_form: Collection[ScheduleKey] = (),
) -> UnaskedTasks | None:
    """What was probably not asked for, where nobody said which model is compiled.

    `in_other_form` are keys whose programs were asked for under other keys (other_forms.py). A
    stored model whose tasks were all asked for explains these. Of the rest, the model that holds
    most is taken for the one, the first of equals (Store.models_holding gives the smallest first).
    None where there is no rest, or no stored model holds any of it.
    """
    wanted = set(asked)
    explained = {key for one in models if wanted.issuperset(one.keys) for key in one.keys}
    rest = wanted.union(in_other_form) - explained
    holders = [one for one in models if not rest.isdisjoint(one.keys)]
    if not holders:
        return None
    return unasked_of(max(holders, key=lambda one: len(rest.intersection(one.keys))), wanted)
