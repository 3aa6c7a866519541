"""Where the tasks of a job stand: what was measured of their workloads so far."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import accumulate
from typing import Any

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session, defer

from tunebook.cache.records import ErrorClass, Source
from tunebook.cache.storage.identities import key_of
from tunebook.cache.storage.tables import (
    FINISHED,
    JobRow,
    RecordRow,
    RoundRow,
    ScheduleRow,
    TargetRow,
    TaskRow,
    WorkloadRow,
)
from tunebook.cache.stored.suspect_records import is_suspect
from tunebook.cache.work import TaskState


def task_states(session: Session, job_id: int) -> list[TaskState]:
    """See Store.task_states."""
    emulated = session.execute(select(JobRow.emulated).where(JobRow.id == job_id)).scalar_one()
    tasks = session.execute(
        select(TaskRow, WorkloadRow, TargetRow.text)
        .join(WorkloadRow, WorkloadRow.id == TaskRow.workload_id)
        .join(TargetRow, TargetRow.id == TaskRow.target_id)
        .options(defer(WorkloadRow.tir))
        .where(TaskRow.job_id == job_id)
        .order_by(TaskRow.id)
    ).all()
    measured = _Measured.read(session, job_id, emulated)
    return [
        TaskState(
            id=task.id,
            key=key_of(workload, target),
            weight=task.weight,
            flops=workload.flops,
            untuned_seconds=task.untuned_seconds,
            best_seconds=measured.best.get(task.workload_id),
            served_seconds=measured.served.get(task.workload_id),
            trials=measured.trials.get(task.workload_id, 0),
            history=tuple(measured.history.get(task.workload_id, ())),
            exhausted=task.exhausted,
            failures=dict(measured.failures.get(task.workload_id, {})),
            seconds_per_trial=measured.seconds_per_trial(task.workload_id),
            board_seconds_per_trial=measured.board_seconds_per_trial(task.workload_id),
            history_trials=tuple(accumulate(measured.round_trials.get(task.workload_id, ()))),
            suspects=measured.suspects.get(task.workload_id, 0),
            best_is_suspect=task.workload_id in measured.suspect_best,
        )
        for task, workload, target in tasks
    ]


class _Measured:
    """What was measured of each workload of a job, by workload id."""

    def __init__(self) -> None:
        self.best: dict[int, float] = {}
        self.suspects: dict[int, int] = defaultdict(int)
        self.suspect_best: set[int] = set()
        self.served: dict[int, float] = {}
        self.trials: dict[int, int] = defaultdict(int)
        self.history: dict[int, list[float]] = defaultdict(list)
        self.round_trials: dict[int, list[int]] = defaultdict(list)
        self.failures: dict[int, dict[ErrorClass, int]] = defaultdict(dict)
        self._board_seconds: dict[int, float] = defaultdict(float)
        self._timed_seconds: dict[int, float] = defaultdict(float)
        self._timed_trials: dict[int, int] = defaultdict(int)

    def seconds_per_trial(self, workload: int) -> float | None:
        trials = self._timed_trials.get(workload, 0)
        return self._timed_seconds[workload] / trials if trials else None

    def board_seconds_per_trial(self, workload: int) -> float | None:
        trials = self.trials.get(workload, 0)
        return self._board_seconds[workload] / trials if trials else None

    @classmethod
    def read(cls, session: Session, job_id: int, emulated: bool) -> _Measured:
        measured = cls()

        def of_job(row: type[RecordRow] | type[ScheduleRow] | type[RoundRow]) -> Any:
            return (
                (TaskRow.job_id == job_id)
                & (row.workload_id == TaskRow.workload_id)
                & (row.target_id == TaskRow.target_id)
                & (row.emulated == emulated)
            )

        good = ~is_suspect()
        for workload, error, trials, good_trials, best, doubtful, board_seconds in session.execute(
            select(
                RecordRow.workload_id,
                RecordRow.error,
                func.count(),
                func.count(case((good, 1))),
                func.min(case((good, RecordRow.seconds))),
                func.min(RecordRow.seconds),
                func.sum(RecordRow.board_seconds),
            )
            .where(of_job(RecordRow), RecordRow.source != Source.IMPORT.value)
            .group_by(RecordRow.workload_id, RecordRow.error)
        ):
            measured.trials[workload] += trials
            measured._board_seconds[workload] += board_seconds
            measured.suspects[workload] += trials - good_trials
            if error is None and doubtful is not None:
                measured.best[workload] = doubtful if best is None else best
                if best is None:
                    measured.suspect_best.add(workload)
            elif error is not None:
                measured.failures[workload][ErrorClass(error)] = trials
        for workload, served in session.execute(
            select(ScheduleRow.workload_id, ScheduleRow.seconds).where(of_job(ScheduleRow))
        ):
            measured.served[workload] = served
        # The state is looked at here: SQLite would else go through all finished rounds there are.
        for workload, state, best, granted, seconds in session.execute(
            select(
                RoundRow.workload_id,
                RoundRow.state,
                RoundRow.best_seconds,
                RoundRow.granted,
                RoundRow.seconds,
            )
            .where(of_job(RoundRow))
            .order_by(RoundRow.id)
        ):
            if state != FINISHED:
                continue
            measured.history[workload].append(math.inf if best is None else best)
            measured.round_trials[workload].append(granted or 0)
            if seconds is not None and granted:
                measured._timed_seconds[workload] += seconds
                measured._timed_trials[workload] += granted
        return measured
