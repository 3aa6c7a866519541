"""What is known of models and workloads that were split: what a build asks beside its look-up."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import ConfigDict, Field, JsonValue

from tunebook.cache.keys import WorkloadKey
from tunebook.cache.remote.split_documents import (
    HoldersDocument,
    SplitsDocument,
    WorkloadsDocument,
    holder_document,
    split_document,
    workload_document,
)
from tunebook.cache.targets import canonical_target
from tunebook.service.api.documents.field_types import DigestPath
from tunebook.service.api.documents.lookup_models import Buffers, Compiler, Op, WorkloadHash
from tunebook.service.api.guards.dependencies import Reader, StoreOf
from tunebook.service.given_documents import GivenDocument
from tunebook.service.given_fields import EXAMPLE_TARGET, TargetText

router = APIRouter(tags=["look-ups"])


_QUESTIONS: list[JsonValue] = [
    {
        "target": EXAMPLE_TARGET,
        "workloads": [
            {
                "op": "conv2d+add+relu",
                "buffers": "f32[1,64,56,56] f32[64,64,3,3] f32[1,64,1,1] -> f32[1,64,54,54]",
                "compiler": "tvm-0.27.0+llvm-22",
                "hash": "8ff98e478c702f8d",
            }
        ],
    }
]


class HeldWorkload(GivenDocument):
    """The key of a workload."""

    op: Op
    buffers: Buffers
    compiler: Compiler
    hash: WorkloadHash


class HoldingQuestion(GivenDocument):
    """Workloads that were asked for on a target."""

    model_config = ConfigDict(json_schema_extra={"examples": _QUESTIONS})

    target: TargetText
    workloads: Annotated[list[HeldWorkload], Field(min_length=1, max_length=2_000, fail_fast=True)]
    limit: Annotated[int, Field(ge=1, le=64)] = 16


@router.get("/models/{sha256}/splits", summary="Read what a model was split into")
def read_splits(
    sha256: DigestPath,
    store: StoreOf,
    token: Reader,
    target: Annotated[TargetText, Query()],
    compiler: Annotated[Compiler | None, Query()] = None,
) -> SplitsDocument:
    """The keys that builds of a model look up on a target, with the choices that it was tuned
    with; nothing where it was never split for it."""
    canonical = str(canonical_target(target))
    found = store.answers.splits(sha256, canonical, compiler)
    return SplitsDocument(items=[split_document(model) for model in found])


@router.get("/workloads", summary="Find the keys of a program")
def find_workloads(
    store: StoreOf,
    token: Reader,
    hash: Annotated[WorkloadHash, Query()],
    buffers: Annotated[Buffers, Query()],
    compiler: Annotated[Compiler, Query()],
) -> WorkloadsDocument:
    """The keys of a program whose operators the caller does not know, the oldest first."""
    found = store.find_workloads(hash, buffers, compiler)
    return WorkloadsDocument(items=[workload_document(key) for key in found])


@router.post("/models/holding", summary="Find models that hold workloads")
def find_holders(question: HoldingQuestion, store: StoreOf, token: Reader) -> HoldersDocument:
    """The stored models on a target that hold any of the workloads, those with most of them first
    and of these the smallest."""
    target = str(canonical_target(question.target))
    workloads = [WorkloadKey(**dict(one)) for one in question.workloads]
    found = store.models_holding(workloads, target, question.limit)
    return HoldersDocument(items=[holder_document(model) for model in found])
