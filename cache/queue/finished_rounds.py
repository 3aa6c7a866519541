"""What is told of a finished round to those who watch its job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ScalarSelect, select
from sqlalchemy.orm import Session

from tunebook.cache.records import Source
from tunebook.cache.storage.identities import KEY_COLUMNS, workload_key_of
from tunebook.cache.storage.tables import (
    JobRow,
    RecordRow,
    RoundRow,
    TargetRow,
    TaskRow,
    WorkloadRow,
)


@dataclass(frozen=True)
class FinishedRound:
    """A round of a submitted job. `latency_seconds` is what the model is expected to take with the
    best that was measured of each task; None before each has a time."""

    job_id: int
    key: str
    op: str
    trials: int
    seconds: float | None
    best_seconds: float | None
    latency_seconds: float | None

    def as_event(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "op": self.op,
            "trials": self.trials,
            "seconds": self.seconds,
            "best_seconds": self.best_seconds,
            "latency_seconds": self.latency_seconds,
        }


def read_finished_round(session: Session, round_id: int) -> FinishedRound | None:
    """None where the round's job was not submitted: nobody watches it."""
    found = session.execute(
        select(
            RoundRow.job_id,
            RoundRow.granted,
            RoundRow.seconds,
            RoundRow.best_seconds,
            JobRow.emulated,
            TargetRow.text,
            *KEY_COLUMNS,
        )
        .join(JobRow, JobRow.id == RoundRow.job_id)
        .join(WorkloadRow, WorkloadRow.id == RoundRow.workload_id)
        .join(TargetRow, TargetRow.id == RoundRow.target_id)
        .where(RoundRow.id == round_id, JobRow.submitted)
    ).one_or_none()
    if found is None:
        return None
    return FinishedRound(
        job_id=found.job_id,
        key=str(workload_key_of(found).on(found.text)),
        op=found.op,
        trials=found.granted or 0,
        seconds=found.seconds,
        best_seconds=found.best_seconds,
        latency_seconds=_latency(session, found.job_id, found.emulated),
    )


def _latency(session: Session, job_id: int, emulated: bool) -> float | None:
    total = 0.0
    for weight, *times in session.execute(
        select(
            TaskRow.weight,
            TaskRow.untuned_seconds,
            _fastest(emulated, verified=True),
            _fastest(emulated, verified=False),
        ).where(TaskRow.job_id == job_id)
    ):
        known = [seconds for seconds in times if seconds is not None]
        if not known:
            return None
        total += weight * min(known)
    return total


def _fastest(emulated: bool, *, verified: bool) -> ScalarSelect[float | None]:
    """The first entry of an index: this is asked while others wait to write."""
    return (
        select(RecordRow.seconds)
        .where(
            RecordRow.workload_id == TaskRow.workload_id,
            RecordRow.target_id == TaskRow.target_id,
            RecordRow.emulated == emulated,
            RecordRow.verified == verified,
            RecordRow.seconds.is_not(None),
            RecordRow.source != Source.IMPORT.value,
        )
        .order_by(RecordRow.seconds)
        .limit(1)
        .scalar_subquery()
    )
