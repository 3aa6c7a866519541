"""A stored schedule as the record that TVM's passes take, replayed on the module they ask for."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import meta_schedule as ms

from tunebook.cache.records import Schedule
from tunebook.tuner.traces.usable import ReplayError, replay_as_measured


def replayed_record(module: Any, schedule: Schedule, target: Any) -> Any:
    """The record of a normalised module for TVM's `target`.

    Raises UntrustedTraceError for a trace that holds more than a schedule, and ReplayError for one
    that does not replay to the module that was measured.
    """
    try:
        replayed = replay_as_measured(module, schedule)
    except ReplayError as error:
        raise ReplayError(
            f"record {schedule.record_id} for {schedule.key}: {error}; tune that task again"
        ) from error
    # TVM switches to anchor traces when the record's module is not the one that it asked for.
    workload = ms.database.Workload(module)
    return ms.database.TuningRecord(replayed.trace, workload, [schedule.seconds], target)
