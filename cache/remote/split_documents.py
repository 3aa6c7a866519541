"""What is known of models and workloads as it goes over HTTP: made by the coordinator, read by its
clients."""

from __future__ import annotations

from pydantic import BaseModel

from tunebook.cache.keys import ScheduleKey, WorkloadKey
from tunebook.cache.likeness import Likeness
from tunebook.cache.records import Model, StoredModel, Task, Workload


class TaskDocument(BaseModel):
    """A workload of a model, with how often the model calls it, and what its program is like."""

    op: str
    buffers: str
    hash: str
    weight: int
    flops: float
    structure: str
    anchor: str
    attributes: str
    constants: str


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


class WorkloadDocument(BaseModel):
    """The key of a workload: one fused tensor program, as a compiler splits it out of a model."""

    op: str
    buffers: str
    compiler: str
    hash: str


class WorkloadsDocument(BaseModel):
    """The keys under which a program is stored, the oldest first."""

    items: list[WorkloadDocument]


class HolderDocument(BaseModel):
    """A stored model that holds some of the workloads, with all keys that it was split into."""

    digest: str
    shapes: str
    choices: str
    keys: list[str]


class HoldersDocument(BaseModel):
    """Those that hold most come first, of these the smallest."""

    items: list[HolderDocument]


def split_document(model: Model) -> SplitDocument:
    """A split as machines read it."""
    return SplitDocument(
        shapes=model.shapes,
        target=model.target,
        compiler=model.compiler,
        choices=model.choices,
        target_features=model.target_features,
        tasks=[_task_document(task) for task in model.tasks],
    )


def model_of(digest: str, document: SplitDocument) -> Model:
    """The model of this digest as a document tells it, without programs."""
    return Model(
        digest=digest,
        shapes=document.shapes,
        target=document.target,
        compiler=document.compiler,
        choices=document.choices,
        tasks=tuple(_task(one, document.compiler) for one in document.tasks),
        target_features=document.target_features,
    )


def workload_document(key: WorkloadKey) -> WorkloadDocument:
    """A workload's key as machines read it."""
    return WorkloadDocument(**vars(key))


def workload_key(document: WorkloadDocument) -> WorkloadKey:
    """The key that a document tells."""
    return WorkloadKey(**dict(document))


def holder_document(model: StoredModel) -> HolderDocument:
    """A stored model as machines read it."""
    return HolderDocument(
        digest=model.digest,
        shapes=model.shapes,
        choices=model.choices,
        keys=[str(key) for key in model.keys],
    )


def holder(document: HolderDocument) -> StoredModel:
    """What a document says. Raises ValueError for a key that is none."""
    keys = tuple(ScheduleKey.parse(key) for key in document.keys)
    return StoredModel(document.digest, document.shapes, document.choices, keys)


def _task_document(task: Task) -> TaskDocument:
    key = task.workload.key
    return TaskDocument(
        op=key.op,
        buffers=key.buffers,
        hash=key.hash,
        weight=task.weight,
        flops=task.workload.flops,
        **vars(task.workload.likeness),
    )


def _task(document: TaskDocument, compiler: str) -> Task:
    key = WorkloadKey(document.op, document.buffers, compiler, document.hash)
    likeness = Likeness(
        document.structure, document.anchor, document.attributes, document.constants
    )
    return Task(Workload(key, "", document.flops, likeness), document.weight)
