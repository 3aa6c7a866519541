"""Replaying a trace, which is untrusted code wherever it comes from."""

from __future__ import annotations

import json
from typing import Any

from tvm.s_tir import Schedule, Trace

from tunebook.cache.untrusted.traces import check_trace
from tunebook.tuner.traces.blocks import with_names_of


def replay(module: Any, trace: str) -> Schedule:
    """An IRModule scheduled by a trace's JSON text, whatever names its blocks had there.

    Raises UntrustedTraceError before anything of a trace is replayed that holds more than a
    schedule does: an annotation can carry code into the product. Otherwise whatever TVM raises
    where the trace does not fit the module.
    """
    check_trace(trace)
    instructions, decisions = json.loads(trace)
    schedule = Schedule(module)
    named = with_names_of(module, instructions)
    Trace.apply_json_to_schedule([named, decisions], schedule)
    return schedule
