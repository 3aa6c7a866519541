"""Runs in a process that may die, and builds what it is sent.

Code generation aborts the whole process where LLVM cannot select an instruction, and a compile
that does not end can only be killed; so neither happens anywhere else.
"""

from __future__ import annotations

import os

from tunebook.tuner.child_process import Answer, Handler, serve_parent
from tunebook.tuner.trials.trials import BuildJob
from tunebook.tuner.tvm_compat import check_versions, load_cpu_intrinsics

# Where building overlaps measuring, what measures comes first: a late build costs nothing.
_NICENESS = 10


def _start() -> Handler:
    os.nice(_NICENESS)
    check_versions()
    load_cpu_intrinsics()
    # Only now: a wrong version of TVM may crash on import.
    from tunebook.tuner.trials.kernel_build import build

    def handle(job: BuildJob, answer: Answer) -> None:
        answer(build(job))

    return handle


if __name__ == "__main__":
    serve_parent(_start)
