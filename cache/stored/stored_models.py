"""Models as they were split: saved with their workloads, and found again by digest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from tunebook.cache.records import Model, Task, Workload
from tunebook.cache.storage.identities import (
    KEY_COLUMNS,
    LIKENESS_COLUMNS,
    ensure_target,
    ensure_workload,
    insert_missing,
    likeness_of,
    workload_key_of,
    workload_of,
)
from tunebook.cache.storage.revisions import SCHEDULES, bump
from tunebook.cache.storage.tables import ModelRow, ModelTaskRow, TargetRow, WorkloadRow


def save_model(session: Session, model: Model) -> int:
    """Stores the model, its workloads and tasks where they are not yet; gives the model's id.

    Raises ValueError for a model that was split without its programs.
    """
    if not all(task.workload.tir for task in model.tasks):
        raise ValueError("a model is stored with its programs: split it with their TIR")
    target_id = ensure_target(session, model.target, model.target_features)
    identity = {
        "digest": model.digest,
        "shapes": model.shapes,
        "target_id": target_id,
        "compiler": model.compiler,
        "choices": model.choices,
    }
    insert_missing(session, ModelRow, {**identity})
    model_id = session.execute(select(ModelRow.id).filter_by(**identity)).scalar_one()
    # Several programs may wait here with the same workloads: all take them in one order.
    ordered = sorted(model.tasks, key=lambda task: task.workload.key)
    ids = {task.workload.key: ensure_workload(session, task.workload) for task in ordered}
    _note_saved(session, model_id, identity)
    _save_tasks(session, model_id, [(ids[task.workload.key], task.weight) for task in model.tasks])
    bump(session, SCHEDULES)
    return model_id


def _save_tasks(session: Session, model_id: int, tasks: Sequence[tuple[int, int]]) -> None:
    """Puts workloads and weights in the place of what another version split the model into, or
    called its operators."""
    of_model = ModelTaskRow.model_id == model_id
    stored = session.execute(
        select(ModelTaskRow.workload_id, ModelTaskRow.weight)
        .where(of_model)
        .order_by(ModelTaskRow.position)
    ).all()
    if [tuple(row) for row in stored] == list(tasks):
        return
    session.execute(delete(ModelTaskRow).where(of_model))
    session.add_all(
        ModelTaskRow(model_id=model_id, position=position, workload_id=workload, weight=weight)
        for position, (workload, weight) in enumerate(tasks)
    )
    session.flush()


def _note_saved(session: Session, model_id: int, identity: dict[str, Any]) -> None:
    """Makes this the one that was saved last of those that differ in choices only."""
    alike = {name: value for name, value in identity.items() if name != "choices"}
    others = select(func.coalesce(func.max(ModelRow.saved), 0)).filter_by(**alike)
    last = session.scalar(others.where(ModelRow.id != model_id)) or 0
    session.execute(
        update(ModelRow)
        .where(ModelRow.id == model_id, ModelRow.saved <= last)
        .values(saved=last + 1)
    )


def find_model(
    session: Session, digest: str, shapes: str, target: str, compiler: str
) -> Model | None:
    """The model with its tasks, the one saved last where choices differ."""
    of_shapes = (ModelRow.shapes == shapes, ModelRow.compiler == compiler)
    row = session.execute(_latest_first(digest, target).where(*of_shapes).limit(1)).first()
    if row is None:
        return None
    tasks = session.execute(
        select(WorkloadRow, ModelTaskRow.weight)
        .join(ModelTaskRow, ModelTaskRow.workload_id == WorkloadRow.id)
        .where(ModelTaskRow.model_id == row.id)
        .order_by(ModelTaskRow.position)
    )
    return _model(
        row, digest, target, [Task(workload_of(workload), weight) for workload, weight in tasks]
    )


def find_splits(
    session: Session, digest: str, target: str, compiler: str | None
) -> tuple[Model, ...]:
    """The splits of a model for a target, by one compiler or all: of each shapes and compiler the
    one saved last. Without programs, which is all that a look-up needs."""
    statement = _latest_first(digest, target)
    if compiler is not None:
        statement = statement.where(ModelRow.compiler == compiler)
    latest: dict[tuple[str, str], Any] = {}
    for row in session.execute(statement):
        latest.setdefault((row.shapes, row.compiler), row)
    return tuple(
        _model(row, digest, target, _tasks_without_programs(session, row.id))
        for row in latest.values()
    )


def _latest_first(digest: str, target: str) -> Any:
    return (
        select(
            ModelRow.id, ModelRow.shapes, ModelRow.compiler, ModelRow.choices, TargetRow.features
        )
        .join(TargetRow, TargetRow.id == ModelRow.target_id)
        .where(ModelRow.digest == digest, TargetRow.text == target)
        .order_by(ModelRow.saved.desc(), ModelRow.id.desc())
    )


def _tasks_without_programs(session: Session, model_id: int) -> list[Task]:
    rows = session.execute(
        select(*KEY_COLUMNS, *LIKENESS_COLUMNS, WorkloadRow.flops, ModelTaskRow.weight)
        .join(ModelTaskRow, ModelTaskRow.workload_id == WorkloadRow.id)
        .where(ModelTaskRow.model_id == model_id)
        .order_by(ModelTaskRow.position)
    )
    return [
        Task(Workload(workload_key_of(row), "", row.flops, likeness_of(row)), row.weight)
        for row in rows
    ]


def _model(row: Any, digest: str, target: str, tasks: Sequence[Task]) -> Model:
    return Model(
        digest=digest,
        shapes=row.shapes,
        target=target,
        compiler=row.compiler,
        choices=row.choices,
        tasks=tuple(tasks),
        target_features=row.features,
    )
