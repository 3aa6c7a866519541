"""Measures and verifies what was made from near traces, as rounds of a job like any other."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.misses import MissReason
from tunebook.cache.near_schedules import NearSchedules
from tunebook.cache.records import Candidate, Measurement, Source
from tunebook.cache.store import ClaimedRound, RoundProposal, Store, TaskState
from tunebook.cache.targets import Target
from tunebook.tuner.trials.trials import BoardAddress
from tunebook.workers.claims import claim_rounds
from tunebook.workers.measured_records import measured_here, modules_of
from tunebook.workers.near_candidates import NearCandidates
from tunebook.workers.phase_times import PhaseClock
from tunebook.workers.progress import ProgressListener, ProgressMeter
from tunebook.workers.recovery_trials import RecoveryTrials
from tunebook.workers.round_runner import RoundRunner
from tunebook.workers.workbench import WorkerSettings, open_workbench

_log = logging.getLogger(__name__)


@dataclass
class Recipe:
    """How one missing schedule is made: from what is near, with so many trials at most.

    Without anything near, only the key's own unverified records are verified.
    """

    key: ScheduleKey
    near: tuple[NearSchedules, ...]
    trials: RecoveryTrials
    candidates: list[Candidate] = field(default_factory=list)
    proposed: int = 0

    def next_size(self, task: TaskState) -> int:
        """How many trials its next round gets."""
        left = min(len(self.candidates), self.trials.most - self.proposed)
        if not self.trials.until_served:
            return left
        return 0 if task.served_seconds is not None else min(1, left)


class _Recipes:
    """Proposes the candidates of recipes."""

    def __init__(self, recipes: Sequence[Recipe]) -> None:
        self._recipes = {recipe.key: recipe for recipe in recipes}

    def of(self, task: TaskState) -> Recipe | None:
        return self._recipes.get(task.key)

    def propose(self, task: TaskState, count: int) -> list[Candidate]:
        """None for a task without a recipe: its round was left by a search that died, or is another
        one's meanwhile, and only what it has stored is measured."""
        recipe = self._recipes.get(task.key)
        if recipe is None:
            return []
        given, recipe.candidates = recipe.candidates[:count], recipe.candidates[count:]
        recipe.proposed += len(given)
        return given

    def learn(self, key: ScheduleKey, results: list[tuple[Candidate, Measurement]]) -> None:
        """What a migration measures is in the store for the next search to learn from."""


class MigrationWorker:
    """Works for one job on one board class."""

    def __init__(
        self,
        store: Store,
        target: Target,
        board: BoardAddress,
        settings: WorkerSettings,
        listener: ProgressListener,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._target = target
        self._board = board
        self._settings = settings
        self._listener = listener
        self._monotonic = monotonic
        self._measured: Counter[ScheduleKey] = Counter()

    def run(self, job_id: int, recipes: Sequence[Recipe]) -> Mapping[ScheduleKey, int]:
        """Carries out the recipes, and gives the trials measured of each key.

        Raises BoardError when no board can be had, and TunebookError when this machine cannot
        build; what was measured is stored by then.
        """
        meter = ProgressMeter(self._listener, self._monotonic, self._store.budget(job_id), None)
        clock = PhaseClock(self._monotonic)
        proposals = _Recipes(recipes)

        def on_trial(key: ScheduleKey) -> None:
            self._measured[key] += 1
            self._report(meter, job_id, key.op)

        with open_workbench(self._store, self._target, self._board, self._settings, clock) as bench:
            runner = RoundRunner(
                self._store,
                bench,
                proposals,
                on_trial=on_trial,
                out_of_time=lambda: False,
                stop=threading.Event(),
            )
            with bench.machine.measuring():
                for recipe in recipes:
                    self._report(meter, job_id, f"verifying {recipe.key.op}")
                    self._adopt(recipe)
                    runner.verify_best(recipe.key, {})
            self._adapt(job_id, proposals, meter)
            while batch := self._claim(job_id, proposals):
                runner.run(batch)
        return self._measured

    def _adopt(self, recipe: Recipe) -> None:
        """Takes over what an equivalent target has: the same code needs no second measurement."""
        for one in recipe.near:
            if one.reason is not MissReason.EQUIVALENT_TARGET:
                continue
            for record in one.records:
                if record.verified and record.measurement.emulated == self._board.emulated:
                    origin = f"record {record.id} of {one.key}: the same code"
                    self._store.adopt_record(record.id, recipe.key, origin)

    def _adapt(self, job_id: int, proposals: _Recipes, meter: ProgressMeter) -> None:
        """Makes the candidates of those that are not served by now."""
        near = NearCandidates(self._store, emulated=self._board.emulated, seed=self._settings.seed)
        for task in self._store.task_states(job_id):
            recipe = proposals.of(task)
            if recipe is not None and task.served_seconds is None:
                self._report(meter, job_id, f"adapting {task.key.op}")
                measured = measured_here(self._store, task.key, emulated=self._board.emulated)
                recipe.candidates = near.adapted(
                    recipe.key,
                    recipe.near,
                    Source.MIGRATION,
                    recipe.trials.most,
                    modules_of(measured),
                )

    def _claim(self, job_id: int, proposals: _Recipes) -> list[ClaimedRound]:
        """The next round of every task that wants one; none once all are served or out of trials,
        or another worker has their rounds."""
        wanted = [
            RoundProposal(task.id, size, float(task.weight))
            for task in self._store.task_states(job_id)
            if (recipe := proposals.of(task)) is not None and (size := recipe.next_size(task)) > 0
        ]
        self._store.propose_rounds(job_id, wanted)
        task_ids = {proposal.task_id for proposal in wanted}
        claimed = claim_rounds(self._store, job_id, self._settings.batch, task_ids)
        if wanted and not claimed:
            _log.warning("%d tasks are left out: another worker has their rounds", len(wanted))
        return claimed

    def _report(self, meter: ProgressMeter, job_id: int, activity: str) -> None:
        meter.report(self._store.budget(job_id), self._store.task_states(job_id), activity)
