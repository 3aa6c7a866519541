"""Runs in a process that may be killed: measures and verifies kernels on one board over RPC."""

from __future__ import annotations

from tunebook.tuner.child_process import Answer, Handler, serve_parent
from tunebook.tuner.trials.trials import GiveBoardBack, MeasuringJob
from tunebook.tuner.tvm_compat import check_versions


def _start() -> Handler:
    check_versions()
    # Only now: a wrong version of TVM may crash on import.
    from tunebook.tuner.trials.board_trials import BoardTrials

    trials = BoardTrials()

    def handle(job: MeasuringJob | GiveBoardBack, answer: Answer) -> None:
        if isinstance(job, GiveBoardBack):
            trials.give_board_back()
        else:
            answer(trials.carry_out(job, answer))

    return handle


if __name__ == "__main__":
    serve_parent(_start)
