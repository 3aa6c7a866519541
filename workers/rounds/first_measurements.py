"""What is measured of a job's tasks before any round: what they take untuned, and what a run that
was killed left unverified."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from tunebook.cache.records import Measurement
from tunebook.cache.store import Store, TaskState
from tunebook.tuner.trials.target_boards import result_of
from tunebook.tuner.trials.trials import BuiltLibrary
from tunebook.workers.rounds.log_members import members_of
from tunebook.workers.rounds.round_runner import RoundRunner
from tunebook.workers.rounds.workbench import Workbench

_log = logging.getLogger(__name__)

# Is told what comes next, and says whether to go on.
GoOn = Callable[[str], bool]


def measure_untuned(
    store: Store, bench: Workbench, tasks: Sequence[TaskState], go_on: GoOn
) -> None:
    """Times the unscheduled programs of those tasks of which nobody knows it yet, on all boards."""
    unknown = [task for task in tasks if task.untuned_seconds is None]
    bench.programs.build_references([task.key for task in unknown])
    ended = False

    def wanted() -> bool:
        return not ended

    measured = {}
    for task in unknown:
        reference = bench.programs.reference(task.key)
        if reference is not None:
            measured[_measure(bench, reference, task, wanted)] = task
    try:
        for done in measured:
            if not go_on(f"untuned {measured[done].key.op}"):
                return
            _note_untuned(store, measured[done], result_of(done))
    finally:
        ended = True


def _measure(
    bench: Workbench, reference: BuiltLibrary, task: TaskState, wanted: Callable[[], bool]
) -> Future[Measurement]:
    program = bench.programs.program(task.key)
    return bench.measurer.submit(lambda board: board.measure(reference, program), wanted=wanted)


def _note_untuned(store: Store, task: TaskState, measurement: Measurement) -> None:
    if measurement.seconds is not None:
        store.set_untuned_seconds(task.id, measurement.seconds)
        return
    _log.warning(
        "%s: untuned program: %s",
        task.key,
        measurement.error_text,
        extra={"task": task.id, **members_of(task.key)},
    )


def verify_leftovers(runner: RoundRunner, tasks: Sequence[TaskState], go_on: GoOn) -> None:
    """Verifies the best of each task that was measured and is not served."""
    for task in tasks:
        if task.best_seconds is not None and task.best_seconds != task.served_seconds:
            if not go_on(f"verifying {task.key.op}"):
                return
            runner.verify_best(task.key, {})
