"""Whether what is served can be built from: its trace is trusted, and gives what was measured."""

from __future__ import annotations

from typing import Any

import tvm

from tunebook.cache.errors import TunebookError, UntrustedTraceError
from tunebook.cache.records import Schedule
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.one_line import one_line
from tunebook.tuner.traces.replay import replay


class ReplayError(TunebookError):
    """A stored schedule that does not replay on its workload, or not to what was measured."""


def replay_as_measured(module: Any, schedule: Schedule) -> Any:
    """A normalised module scheduled as it was measured, as TVM's `Schedule`.

    Raises UntrustedTraceError for a trace that holds more than a schedule, and ReplayError, which
    says why but not of which record, for one that does not replay to the module that was measured.
    """
    try:
        replayed = replay(module, schedule.trace)
    except UntrustedTraceError:
        raise
    except Exception as error:  # TVM raises whatever it likes where a trace does not fit
        raise ReplayError(f"the trace does not replay: {one_line(error)}") from error
    found = module_hash(replayed.mod)
    if found != schedule.module_hash:
        raise ReplayError(
            f"the trace replays to module {found} and not to {schedule.module_hash}, which was "
            f"measured"
        )
    return replayed


def why_unusable(tir: str, schedule: Schedule) -> str | None:
    """In one line why a schedule of the program `tir` (TVM's JSON text) cannot be built from; None
    where it can."""
    try:
        replay_as_measured(tvm.ir.load_json(tir), schedule)
    except (UntrustedTraceError, ReplayError) as error:
        return str(error)
    return None
