"""How much of what builds of the stored models would look up is in the cache now."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import and_, case, func, select
from sqlalchemy.orm import Session

from tunebook.cache.storage.tables import ModelRow, ModelTaskRow, RecordRow, ScheduleRow, TargetRow


@dataclass(frozen=True)
class Coverage:
    """Of the `keys` of a target's stored models, `served` have a schedule from a real board."""

    keys: int
    served: int

    @property
    def rate(self) -> float | None:
        return self.served / self.keys if self.keys else None


NOTHING_STORED = Coverage(0, 0)


def coverage(session: Session) -> dict[str, Coverage]:
    """By target; of each only the compiler by which a model was split last: what an older one split
    is looked up no more."""
    latest = (
        select(ModelRow.target_id, func.max(ModelRow.id).label("model_id"))
        .group_by(ModelRow.target_id)
        .subquery()
    )
    present = (
        select(ModelRow.target_id, ModelRow.compiler)
        .join(latest, latest.c.model_id == ModelRow.id)
        .subquery()
    )
    keys = (
        select(ModelRow.target_id, ModelTaskRow.workload_id)
        .join(ModelTaskRow, ModelTaskRow.model_id == ModelRow.id)
        .join(
            present,
            and_(
                present.c.target_id == ModelRow.target_id, present.c.compiler == ModelRow.compiler
            ),
        )
        .distinct()
        .subquery()
    )
    is_served = (
        select(1)
        .select_from(ScheduleRow)
        .join(RecordRow, RecordRow.id == ScheduleRow.record_id)
        .where(
            ScheduleRow.workload_id == keys.c.workload_id,
            ScheduleRow.target_id == keys.c.target_id,
            ScheduleRow.emulated.is_(False),
            RecordRow.verified,
            RecordRow.error.is_(None),
        )
        .exists()
    )
    rows = session.execute(
        select(TargetRow.text, func.count(), func.sum(case((is_served, 1), else_=0)))
        .select_from(keys)
        .join(TargetRow, TargetRow.id == keys.c.target_id)
        .group_by(TargetRow.text)
    )
    return {text: Coverage(number, int(served or 0)) for text, number, served in rows}
