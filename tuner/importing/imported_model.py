"""A model as TVM sees it, whatever file it came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TensorSpec:
    """An input or output: its name in the model file, dtype as TVM spells it, and fixed shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class ImportedModel:
    """A model with fixed shapes and its weights bound as constants.

    `module` is a Relax IRModule whose `main` takes `inputs` in order and gives `outputs` in order;
    `digest` is the SHA-256 of the model file and its external data; `shapes` the canonical text of
    the input shapes (see `records.Model`).
    """

    name: str  # the file's name, for people
    module: Any
    digest: str
    shapes: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
