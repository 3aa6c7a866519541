"""The choices that a model was tuned with: a build that made others would ask for other keys."""

from __future__ import annotations

from typing import Protocol

from tunebook.cache.records import Model
from tunebook.cache.targets import Target
from tunebook.tuner.compiler import compiler_text
from tunebook.tuner.importing.imported_model import ImportedModel
from tunebook.tuner.splitting.choices import Choices


class ModelSource(Protocol):
    """Where models are found again: a `Store`, or whatever answers as it does."""

    def find_model(self, digest: str, shapes: str, target: str, compiler: str) -> Model | None: ...


def stored_choices(source: ModelSource, model: ImportedModel, target: Target) -> Choices:
    """The choices that the model was stored with last for this target; the defaults for one that
    never was. Raises UsageError for a choice of another version of Tunebook."""
    found = source.find_model(model.digest, model.shapes, str(target), compiler_text())
    return Choices() if found is None else Choices.parse(found.choices)
