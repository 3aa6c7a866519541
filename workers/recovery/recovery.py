"""Recovery: what recipes make is verified and measured, as rounds of a job like any other."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tunebook.cache.misses import MissReason
from tunebook.cache.records import Source
from tunebook.cache.store import ClaimedRound, RoundProposal, Store
from tunebook.workers.recovery.recipes import Recipe, RecipeProposer
from tunebook.workers.rounds.claims import claim_rounds
from tunebook.workers.rounds.first_measurements import GoOn
from tunebook.workers.rounds.measured_records import measured_here, modules_of
from tunebook.workers.rounds.near_candidates import NearCandidates
from tunebook.workers.rounds.round_runner import RoundRunner
from tunebook.workers.rounds.round_watch import RoundWatch
from tunebook.workers.rounds.workbench import Workbench, WorkerSettings, supply_for

_log = logging.getLogger(__name__)


class Recovery:
    """Carries out recipes for one job on a workbench, in the name of a worker."""

    def __init__(
        self,
        store: Store,
        bench: Workbench,
        settings: WorkerSettings,
        watch: RoundWatch,
        *,
        worker: str,
        go_on: GoOn,
    ) -> None:
        self._store = store
        self._bench = bench
        self._settings = settings
        self._watch = watch
        self._worker = worker
        self._go_on = go_on

    def run(self, job_id: int, recipes: Sequence[Recipe]) -> None:
        """Takes over, verifies, adapts and measures, until all are served or out of trials, or
        `go_on` says no.

        Raises BoardError when no board can be had, and TunebookError when this machine cannot
        build; what was measured is stored by then.
        """
        proposer = RecipeProposer(recipes)
        supply = supply_for(self._bench.measurer.pool, self._settings)
        runner = RoundRunner(self._store, self._bench, proposer, self._watch, supply=supply)
        with self._bench.machine.measuring():
            for recipe in recipes:
                if not self._go_on(f"verifying {recipe.key.op}"):
                    return
                self._adopt(recipe)
                runner.verify_best(recipe.key, {})
        self._adapt(job_id, proposer)
        while self._go_on("recovering") and (batch := self._claim(job_id, proposer)):
            runner.run(batch)

    def _adopt(self, recipe: Recipe) -> None:
        """Takes over what an equivalent target has: the same code needs no second measurement."""
        for one in recipe.near:
            if one.reason is not MissReason.EQUIVALENT_TARGET:
                continue
            for record in one.records:
                if record.verified and record.measurement.emulated == self._bench.board.emulated:
                    origin = f"record {record.id} of {one.key}: the same code"
                    self._store.adopt_record(record.id, recipe.key, origin)

    def _adapt(self, job_id: int, proposer: RecipeProposer) -> None:
        """Makes the candidates of those that are not served by now."""
        emulated = self._bench.board.emulated
        near = NearCandidates(self._store, emulated=emulated, seed=self._settings.seed)
        for task in self._store.task_states(job_id):
            recipe = proposer.of(task)
            if recipe is None or task.served_seconds is not None:
                continue
            if not self._go_on(f"adapting {task.key.op}"):
                return
            measured = measured_here(self._store, task.key, emulated=emulated)
            recipe.candidates = near.adapted(
                recipe.key,
                recipe.near,
                Source.MIGRATION,
                recipe.trials.most,
                modules_of(measured),
            )

    def _claim(self, job_id: int, proposer: RecipeProposer) -> list[ClaimedRound]:
        """The next round of every task that wants one; none once all are served or out of trials,
        or another worker has their rounds."""
        wanted = [
            RoundProposal(task.id, size, float(task.weight))
            for task in self._store.task_states(job_id)
            if (recipe := proposer.of(task)) is not None and (size := recipe.next_size(task)) > 0
        ]
        self._store.propose_rounds(job_id, wanted)
        task_ids = {proposal.task_id for proposal in wanted}
        claimed = claim_rounds(self._store, self._worker, [job_id], self._settings.batch, task_ids)
        if wanted and not claimed:
            _log.warning(
                "%d tasks are left out: another worker has their rounds, or no trials are left",
                len(wanted),
                extra={"job": job_id},
            )
        return claimed
