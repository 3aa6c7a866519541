"""A stored schedule as the record that TVM's passes take, replayed on the module they ask for."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import meta_schedule as ms

from tunebook.cache.errors import TunebookError, UntrustedTraceError
from tunebook.cache.records import Schedule
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.one_line import one_line
from tunebook.tuner.traces.replay import replay


class ReplayError(TunebookError):
    """A stored schedule that does not replay on its workload, or not to what was measured."""


def replayed_record(module: Any, schedule: Schedule, target: Any) -> Any:
    """The record of a normalised module for TVM's `target`.

    Raises UntrustedTraceError for a trace that holds more than a schedule, and ReplayError for one
    that does not replay to the module that was measured.
    """
    replayed = _replay(module, schedule)
    # TVM switches to anchor traces when the record's module is not the one that it asked for.
    workload = ms.database.Workload(module)
    return ms.database.TuningRecord(replayed.trace, workload, [schedule.seconds], target)


def _replay(module: Any, schedule: Schedule) -> Any:
    try:
        replayed = replay(module, schedule.trace)
    except UntrustedTraceError:
        raise
    except Exception as error:
        raise ReplayError(
            f"record {schedule.record_id} does not replay on {schedule.key}: {one_line(error)}; "
            f"tune that task again"
        ) from error
    found = module_hash(replayed.mod)
    if found != schedule.module_hash:
        raise ReplayError(
            f"record {schedule.record_id} for {schedule.key} replays to module {found} and not to "
            f"{schedule.module_hash}, which was measured; tune that task again"
        )
    return replayed
