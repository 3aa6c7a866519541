"""Runs in a process that may be killed: measures and verifies kernels on one board over RPC."""

from __future__ import annotations

import os

from tunebook.tuner.child_process import Answer, Handler, serve_parent
from tunebook.tuner.trials.trials import GiveBoardBack, MeasuringJob, OpenSession
from tunebook.tuner.tvm_compat import check_versions


def _start() -> Handler:
    check_versions()
    # Nothing is compiled here: without its compiler TVM starts in half the time.
    os.environ["TVM_USE_RUNTIME_LIB"] = "1"
    # Only now: a wrong version of TVM may crash on import.
    from tunebook.tuner.trials.board_trials import BoardTrials

    trials = BoardTrials()

    def handle(asked: OpenSession | MeasuringJob | GiveBoardBack, answer: Answer) -> None:
        if isinstance(asked, GiveBoardBack):
            trials.give_board_back()
        elif isinstance(asked, OpenSession):
            answer(trials.open(asked.settings))
        else:
            answer(trials.carry_out(asked))

    return handle


if __name__ == "__main__":
    serve_parent(_start)
