"""What is known of models and workloads that were split, as documents."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from tunebook.cache.keys import WorkloadKey
from tunebook.cache.known_workloads import StoredModel
from tunebook.cache.records import Model, Task
from tunebook.service.api.field_types import TargetText
from tunebook.service.api.lookup_models import (
    Buffers,
    Compiler,
    LikenessDocument,
    Op,
    WorkloadHash,
)


class WorkloadDocument(BaseModel):
    """A workload: one fused tensor program, as a compiler splits it out of a model."""

    model_config = ConfigDict(extra="forbid")

    op: Op
    buffers: Buffers
    compiler: Compiler
    hash: WorkloadHash

    def key(self) -> WorkloadKey:
        return WorkloadKey(self.op, self.buffers, self.compiler, self.hash)


class TaskDocument(BaseModel):
    """A workload of a model, with how often the model calls it."""

    op: str
    buffers: str
    hash: str
    weight: int
    flops: float
    likeness: LikenessDocument


class SplitDocument(BaseModel):
    """What a model was split into for a target by a compiler. `choices` are those of its
    preparation, which a build repeats."""

    shapes: str
    target: str
    compiler: str
    choices: str
    target_features: str
    tasks: list[TaskDocument]


class SplitsDocument(BaseModel):
    """Of each shapes and compiler the split that was stored last."""

    items: list[SplitDocument]


class WorkloadsDocument(BaseModel):
    """The keys under which a program is stored."""

    items: list[WorkloadDocument]


class HoldingQuestion(BaseModel):
    """Workloads that were asked for on a target."""

    model_config = ConfigDict(extra="forbid")

    target: TargetText
    workloads: Annotated[list[WorkloadDocument], Field(min_length=1, max_length=2_000)]
    limit: Annotated[int, Field(ge=1, le=64)] = 16


class HolderDocument(BaseModel):
    """A stored model that holds some of the workloads, with all keys that it was split into."""

    digest: str
    shapes: str
    choices: str
    keys: list[str]


class HoldersDocument(BaseModel):
    """Those that hold most come first."""

    items: list[HolderDocument]


def split_document(model: Model) -> SplitDocument:
    """A split as machines read it."""
    return SplitDocument(
        shapes=model.shapes,
        target=model.target,
        compiler=model.compiler,
        choices=model.choices,
        target_features=model.target_features,
        tasks=[_task(task) for task in model.tasks],
    )


def _task(task: Task) -> TaskDocument:
    key = task.workload.key
    return TaskDocument(
        op=key.op,
        buffers=key.buffers,
        hash=key.hash,
        weight=task.weight,
        flops=task.workload.flops,
        likeness=LikenessDocument.model_construct(**vars(task.workload.likeness)),
    )


def workload_document(key: WorkloadKey) -> WorkloadDocument:
    """A workload's key as machines read it."""
    return WorkloadDocument.model_construct(
        op=key.op, buffers=key.buffers, compiler=key.compiler, hash=key.hash
    )


def holder_document(model: StoredModel) -> HolderDocument:
    """A stored model as machines read it."""
    return HolderDocument(
        digest=model.digest,
        shapes=model.shapes,
        choices=model.choices,
        keys=[str(key) for key in model.keys],
    )
