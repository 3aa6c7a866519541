"""What is known of workloads that are seen without their model: their keys, and who has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from tunebook.cache.keys import WorkloadKey
from tunebook.cache.records import StoredModel
from tunebook.cache.storage.identities import CHUNK, KEY_COLUMNS, find_workload_ids, key_of
from tunebook.cache.storage.tables import ModelRow, ModelTaskRow, TargetRow, WorkloadRow


def find_workloads(
    session: Session, workload_hash: str, buffers: str, compiler: str
) -> tuple[WorkloadKey, ...]:
    """See Store.find_workloads."""
    ops = session.scalars(
        select(WorkloadRow.op)
        .where(
            WorkloadRow.hash == workload_hash,
            WorkloadRow.compiler == compiler,
            WorkloadRow.buffers == buffers,
        )
        .order_by(WorkloadRow.id)
    )
    return tuple(WorkloadKey(op, buffers, compiler, workload_hash) for op in ops)


def models_holding(
    session: Session, workloads: Sequence[WorkloadKey], target: str, limit: int
) -> tuple[StoredModel, ...]:
    """See Store.models_holding."""
    ids = _ids(session, workloads)
    holders = (
        select(ModelTaskRow.model_id)
        .join(ModelRow, ModelRow.id == ModelTaskRow.model_id)
        .join(TargetRow, TargetRow.id == ModelRow.target_id)
        .where(ModelTaskRow.workload_id.in_(ids), TargetRow.text == target)
    )
    held = func.sum(case((ModelTaskRow.workload_id.in_(ids), 1), else_=0))
    ranked = session.scalars(
        select(ModelTaskRow.model_id)
        .where(ModelTaskRow.model_id.in_(holders))
        .group_by(ModelTaskRow.model_id)
        .order_by(held.desc(), func.count(), ModelTaskRow.model_id)
        .limit(limit)
    )
    return tuple(_stored_model(session, model_id, target) for model_id in ranked.all())


def _ids(session: Session, workloads: Iterable[WorkloadKey]) -> list[int]:
    """The ids of those that are stored, as many as one statement takes."""
    wanted = set(workloads)
    found = find_workload_ids(session, sorted({key.hash for key in wanted})[:CHUNK])
    return [number for key, number in found.items() if key in wanted][:CHUNK]


def _stored_model(session: Session, model_id: int, target: str) -> StoredModel:
    model = session.execute(select(ModelRow).where(ModelRow.id == model_id)).scalar_one()
    rows = session.execute(
        select(*KEY_COLUMNS)
        .join(ModelTaskRow, ModelTaskRow.workload_id == WorkloadRow.id)
        .where(ModelTaskRow.model_id == model_id)
        .order_by(ModelTaskRow.position)
    )
    keys = tuple(key_of(row, target) for row in rows)
    return StoredModel(model.digest, model.shapes, model.choices, keys)
