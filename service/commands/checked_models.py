"""What a cache has for a model that is checked: asked by its digest, or else split here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tunebook.cache.errors import (
    ModelError,
    ModelNotSplitError,
    NotFoundError,
    ServerError,
    UsageError,
)
from tunebook.cache.lookup.answers import SplitQuestion
from tunebook.cache.misses import LookupAnswer
from tunebook.cache.store import Store
from tunebook.service.model_digest import file_digest, is_digest

if TYPE_CHECKING:
    from tunebook.cache.remote.client import Client


@dataclass(frozen=True)
class CheckedModel:
    """A model as it was given: by a file, or by a digest alone."""

    given: str
    path: Path | None
    digest: str


@dataclass(frozen=True)
class Question:
    """What is asked of each model beside its target."""

    shapes: Mapping[str, tuple[int, ...]]
    compiler: str | None
    accept_emulated: bool


def checked_model(given: str) -> CheckedModel:
    """A model to check. Raises UsageError for what is neither a file nor a digest."""
    path = Path(given)
    if path.exists():
        try:
            return CheckedModel(given, path, file_digest(path))
        except ModelError as error:
            raise UsageError(str(error)) from None
    if is_digest(given):
        return CheckedModel(given, None, given)
    raise UsageError(
        f"{given} is neither a model file that is there nor the SHA-256 of one; check the path"
    )


def ask(
    cache: Store | Client, model: CheckedModel, target: str, question: Question
) -> LookupAnswer:
    """Everything that a build of the model would look up on a canonical target.

    A model that was split there before is known by its digest; a file that was not is split here,
    where TVM is installed. Raises ModelNotSplitError and AmbiguousModelError.
    """
    try:
        return _ask_by_digest(cache, model, target, question)
    except ModelNotSplitError:
        if model.path is None or question.compiler is not None:
            raise
        try:
            return _ask_by_keys(cache, model.path, target, question)
        except ModuleNotFoundError:
            pass
        # Where no TVM is installed, what the cache said is what there is to say.
        raise


def _ask_by_digest(
    cache: Store | Client, model: CheckedModel, target: str, question: Question
) -> LookupAnswer:
    if isinstance(cache, Store):
        asked = SplitQuestion(model.digest, target, question.shapes, question.compiler)
        return cache.answers.of_model(asked, accept_emulated=question.accept_emulated).answer
    try:
        return cache.lookup_model(
            model.digest,
            target,
            shapes=question.shapes,
            compiler=question.compiler,
            accept_emulated=question.accept_emulated,
        )
    except NotFoundError as error:
        # A coordinator has no such answer to a look-up: it is another version, or something else.
        raise ServerError(
            f"{cache.url} has no look-ups: {error}; check its address and version"
        ) from None


def _ask_by_keys(
    cache: Store | Client, path: Path, target: str, question: Question
) -> LookupAnswer:
    # Only here: what was split before needs no TVM.
    from tunebook.tuner.importing.frontend import read_model
    from tunebook.tuner.llvm_targets import resolve_target
    from tunebook.tuner.splitting.prepare import prepare
    from tunebook.tuner.splitting.split import split_model
    from tunebook.tuner.splitting.stored_choices import stored_choices

    resolved = resolve_target(target)
    imported = read_model(path, question.shapes, trust_pickles=True)
    choices = stored_choices(cache, imported, resolved)
    split = split_model(prepare(imported, resolved, choices), with_tir=False)
    return cache.lookup(split.keys, accept_emulated=question.accept_emulated, hints=split.hints)
