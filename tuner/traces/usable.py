"""Whether what is served can be built from: its trace is trusted, and gives what was measured."""

from __future__ import annotations

import tvm

from tunebook.cache.errors import UntrustedTraceError
from tunebook.cache.records import Schedule
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.one_line import one_line
from tunebook.tuner.traces.replay import replay


def why_unusable(tir: str, schedule: Schedule) -> str | None:
    """In one line why a schedule of the program `tir` (TVM's JSON text) cannot be built from; None
    where it can."""
    try:
        found = module_hash(replay(tvm.ir.load_json(tir), schedule.trace).mod)
    except UntrustedTraceError as error:
        return str(error)
    except Exception as error:  # TVM raises whatever it likes where a trace does not fit
        return f"the trace does not replay: {one_line(error)}"
    if found != schedule.module_hash:
        return f"the trace gives module {found} and not {schedule.module_hash}, which was measured"
    return None
