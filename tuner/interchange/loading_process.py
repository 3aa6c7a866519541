"""Runs in a process that may die: loads the programs and replays the traces that it is sent."""

from __future__ import annotations

import resource
from functools import lru_cache
from typing import Any

from tunebook.cache.errors import UntrustedProgramError, UntrustedTraceError
from tunebook.tuner.child_process import Answer, Handler, serve_parent
from tunebook.tuner.interchange.foreign_programs import (
    LoadProgram,
    Refused,
    Replayed,
    Script,
    ShowScheduled,
)
from tunebook.tuner.one_line import one_line
from tunebook.tuner.tvm_compat import check_versions, load_cpu_intrinsics

# TVM and the largest of programs take less than one.
_MEMORY_LIMIT = 4 * 2**30


def _start() -> Handler:
    _limit_memory()
    check_versions()
    load_cpu_intrinsics()
    # Only now: a wrong version of TVM may crash on import.
    import tvm

    from tunebook.tuner.hashing import module_hash
    from tunebook.tuner.interchange.foreign_workload import foreign_workload
    from tunebook.tuner.traces.replay import replay

    # The traces of a program come one after the other.
    program = lru_cache(maxsize=1)(tvm.ir.load_json)

    def answer_to(message: Any) -> Any:
        if isinstance(message, LoadProgram):
            return foreign_workload(message.text)
        scheduled = replay(program(message.tir), message.trace).mod
        if isinstance(message, ShowScheduled):
            return Script(scheduled.script())
        return Replayed(module_hash(scheduled))

    def handle(message: Any, answer: Answer) -> None:
        try:
            result = answer_to(message)
        except (UntrustedProgramError, UntrustedTraceError) as error:
            result = Refused(str(error), untrusted=True)
        except Exception as error:  # TVM raises whatever it likes
            result = Refused(one_line(error))
        answer(result)

    return handle


def _limit_memory() -> None:
    """Address space is no measure: threads reserve much of it that they never use."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = _MEMORY_LIMIT if hard == resource.RLIM_INFINITY else min(hard, _MEMORY_LIMIT)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


if __name__ == "__main__":
    serve_parent(_start)
