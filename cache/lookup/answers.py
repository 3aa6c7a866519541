"""Look-ups as a coordinator answers them: each with what tells for how long the answer holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from tunebook.cache.errors import AmbiguousModelError, ModelNotSplitError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.likeness import NO_HINTS, LookupHints
from tunebook.cache.lookup import lookups
from tunebook.cache.misses import LookupAnswer
from tunebook.cache.records import Model
from tunebook.cache.storage.database import Database
from tunebook.cache.storage.identities import find_target
from tunebook.cache.storage.revisions import Revision, RevisionWatch
from tunebook.cache.stored import stored_models

_DIGEST = 12  # as many digits tell models apart for a reader
_NAMED = 4


@dataclass(frozen=True)
class SplitQuestion:
    """A model as it was split for a canonical target; `shapes` gives some of its inputs' shapes,
    and is needed like the compiler where several splits are stored."""

    digest: str
    target: str
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    compiler: str | None = None


@dataclass(frozen=True)
class Answered:
    """An answer from one snapshot, which is not older than `revision`. `target_is_stored` says
    whether the target of the keys is one that a model was split for, or a schedule tuned."""

    answer: LookupAnswer
    revision: Revision
    target_is_stored: bool


class Answers:
    """Answers that somebody may keep: one holds while `revision` stays the same, in all of it where
    something missed, and else in its `schedules`."""

    def __init__(self, database: Database, revisions: RevisionWatch) -> None:
        self._database = database
        self._revisions = revisions

    def of_keys(
        self,
        target: str,
        keys: Sequence[ScheduleKey],
        *,
        accept_emulated: bool = False,
        hints: LookupHints = NO_HINTS,
    ) -> Answered:
        """As Store.lookup, for keys on one target."""
        revision = self._revisions.now()
        with self._database.reading() as session:
            return _answered(session, revision, target, keys, accept_emulated, hints)

    def of_model(self, question: SplitQuestion, *, accept_emulated: bool = False) -> Answered:
        """What a build of the model would look up. Raises ModelNotSplitError and
        AmbiguousModelError."""
        revision = self._revisions.now()
        with self._database.reading() as session:
            model = _the_split(session, question)
            return _answered(
                session, revision, question.target, model.keys, accept_emulated, model.hints
            )

    def splits(self, digest: str, target: str, compiler: str | None = None) -> tuple[Model, ...]:
        """What a model was split into for a canonical target, by one compiler or all; of each
        shapes and compiler the split that was stored last. Without the programs."""
        with self._database.reading() as session:
            return stored_models.find_splits(session, digest, target, compiler)


def _answered(
    session: Session,
    revision: Revision,
    target: str,
    keys: Sequence[ScheduleKey],
    accept_emulated: bool,
    hints: LookupHints,
) -> Answered:
    answer = lookups.lookup(session, keys, accept_emulated, hints)
    is_stored = bool(answer.hits) or find_target(session, target) is not None
    return Answered(answer, revision, is_stored)


def _the_split(session: Session, question: SplitQuestion) -> Model:
    stored = stored_models.find_splits(session, question.digest, question.target, question.compiler)
    named = f"the model {question.digest[:_DIGEST]}"
    place = f"for {question.target}"
    if question.compiler is not None:
        place += f" by {question.compiler}"
    wanted = [f"{name}={','.join(map(str, shape))}" for name, shape in question.shapes.items()]
    fitting = [
        model for model in stored if all(f" {one} " in f" {model.shapes} " for one in wanted)
    ]
    if not stored:
        raise ModelNotSplitError(
            f"{named} was never split {place}; submit a job for it, or look up its workloads"
        )
    if not fitting:
        raise ModelNotSplitError(
            f"{named} was never split {place} with the shapes {' '.join(wanted)}, but "
            f"with {_list(model.shapes for model in stored)}; submit a job for these shapes"
        )
    if len(fitting) > 1:
        found = _list(f"{model.shapes} by {model.compiler}" for model in fitting)
        raise AmbiguousModelError(
            f"{named} was split {place} in {len(fitting)} ways: {found}; say which by its shapes "
            "and compiler"
        )
    return fitting[0]


def _list(texts: Iterable[str]) -> str:
    found = list(texts)
    told = "; ".join(found[:_NAMED])
    return told if len(found) <= _NAMED else f"{told}; and {len(found) - _NAMED} more"
