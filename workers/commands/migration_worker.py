"""The migration worker: carries out a job's recipes, and tells what each key cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.store import ClaimedRound
from tunebook.workers.commands.job_worker import JobWorker
from tunebook.workers.recovery.recipes import Recipe
from tunebook.workers.recovery.recovery import Recovery
from tunebook.workers.rounds.phase_times import PhaseClock
from tunebook.workers.rounds.workbench import open_workbench


class MigrationWorker(JobWorker):
    """Recovers what one job misses."""

    def run(self, job_id: int, recipes: Sequence[Recipe]) -> Mapping[ScheduleKey, int]:
        """Carries out the recipes, and gives the trials measured of each key.

        Raises BoardError when no board can be had, and TunebookError when this machine cannot
        build; what was measured is stored by then.
        """
        meter = self._start_meter(job_id)
        clock = PhaseClock(self._monotonic)
        measured: Counter[ScheduleKey] = Counter()

        def on_trial(claimed: ClaimedRound) -> None:
            measured[claimed.key] += 1
            self._report(meter, job_id, claimed.key.op)

        def go_on(activity: str) -> bool:
            self._report(meter, job_id, activity)
            return True

        with open_workbench(self._store, self._target, self._board, self._settings, clock) as bench:
            watch = replace(self._watch(meter), on_trial=on_trial)
            recovery = Recovery(
                self._store, bench, self._settings, watch, worker=self._name, go_on=go_on
            )
            recovery.run(job_id, recipes)
        return measured
