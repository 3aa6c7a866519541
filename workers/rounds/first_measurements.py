"""What is measured of a job's tasks before any round: what they take untuned, and what a run that
was killed left unverified."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from tunebook.cache.store import Store, TaskState
from tunebook.workers.rounds.log_members import members_of
from tunebook.workers.rounds.round_runner import RoundRunner
from tunebook.workers.rounds.workbench import Workbench

_log = logging.getLogger(__name__)

# Is told what comes next, and says whether to go on.
GoOn = Callable[[str], bool]


def measure_untuned(
    store: Store, bench: Workbench, tasks: Sequence[TaskState], go_on: GoOn
) -> None:
    """Times the unscheduled programs of those tasks of which nobody knows it yet."""
    unknown = [task for task in tasks if task.untuned_seconds is None]
    bench.programs.build_references([task.key for task in unknown])
    for task in unknown:
        if not go_on(f"untuned {task.key.op}"):
            return
        reference = bench.programs.reference(task.key)
        if reference is None:
            continue
        measurement = bench.measurer.measure(reference, bench.programs.program(task.key))
        if measurement.seconds is None:
            _log.warning(
                "%s: untuned program: %s",
                task.key,
                measurement.error_text,
                extra={"task": task.id, **members_of(task.key)},
            )
        else:
            store.set_untuned_seconds(task.id, measurement.seconds)


def verify_leftovers(runner: RoundRunner, tasks: Sequence[TaskState], go_on: GoOn) -> None:
    """Verifies the best of each task that was measured and is not served."""
    for task in tasks:
        if task.best_seconds is not None and task.best_seconds != task.served_seconds:
            if not go_on(f"verifying {task.key.op}"):
                return
            runner.verify_best(task.key, {})
