"""The search worker: plans, claims and runs a job's rounds until budget or time is spent."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field

from tunebook.cache.store import ClaimedRound
from tunebook.tuner.search.allocation import propose_rounds
from tunebook.workers.commands.job_worker import JobWorker
from tunebook.workers.rounds.claims import claim_rounds
from tunebook.workers.rounds.first_measurements import measure_untuned, verify_leftovers
from tunebook.workers.rounds.phase_times import PhaseClock, PhaseTimes
from tunebook.workers.rounds.progress import ProgressMeter
from tunebook.workers.rounds.proposals import SearchProposer
from tunebook.workers.rounds.round_loops import give_way, loops_on
from tunebook.workers.rounds.round_runner import RoundRunner
from tunebook.workers.rounds.supply import Supply, open_trials
from tunebook.workers.rounds.workbench import Workbench, open_workbench, supply_for

# Another worker has every open round: look again after this many seconds.
_IDLE_SECONDS = 0.5
_SIGNAL_SECONDS = 0.5


@dataclass(frozen=True)
class RunSummary:
    """What one run of a worker did: `trials` measured in `seconds`, and why it ended:
    `budget`, `time` or `exhausted`."""

    trials: int
    seconds: float
    ended: str
    times: PhaseTimes = field(default_factory=PhaseTimes)


class SearchWorker(JobWorker):
    """Searches for one job."""

    def run(self, job_id: int, seconds: float | None = None) -> RunSummary:
        """Runs rounds until the budget is spent, `seconds` are over, or nothing is left to try.

        Overruns `seconds` by less than a round. Raises BoardError when no board can be had, and
        TunebookError when this machine cannot build.
        """
        before = self._store.budget(job_id)
        meter = self._start_meter(job_id, seconds)
        clock = PhaseClock(self._monotonic)
        with open_workbench(self._store, self._target, self._board, self._settings, clock) as bench:
            supply = supply_for(bench.measurer.pool, self._settings)
            runner = self._runner(bench, meter, supply)
            with bench.machine.measuring():
                self._measure_first(job_id, bench, runner, meter)
            ended = self._run_rounds(job_id, runner, meter, supply)
        spent = self._store.budget(job_id).spent - before.spent
        return RunSummary(spent, meter.elapsed, ended, clock.times)

    def _runner(self, bench: Workbench, meter: ProgressMeter, supply: Supply) -> RoundRunner:
        proposer = SearchProposer.on(bench, self._store, self._target, self._settings)
        return RoundRunner(self._store, bench, proposer, self._watch(meter), supply=supply)

    def _measure_first(
        self, job_id: int, bench: Workbench, runner: RoundRunner, meter: ProgressMeter
    ) -> None:
        def go_on(activity: str) -> bool:
            if meter.out_of_time:
                return False
            self._report(meter, job_id, activity)
            return True

        budget = self._store.budget(job_id)
        tasks = self._store.task_states(job_id)
        if budget.spent < budget.limit:
            measure_untuned(self._store, bench, tasks, go_on)
        verify_leftovers(runner, tasks, go_on)

    def _run_rounds(
        self, job_id: int, runner: RoundRunner, meter: ProgressMeter, supply: Supply
    ) -> str:
        rounds = loops_on(self._board)
        threads = ThreadPoolExecutor(rounds, thread_name_prefix="round")
        loops = [threads.submit(self._loop, job_id, runner, meter, supply) for _ in range(rounds)]
        try:
            # An endless wait would not hear a signal that another thread got.
            while wait(loops, _SIGNAL_SECONDS, FIRST_EXCEPTION).not_done and not _failed(loops):
                pass
            return (_failed(loops) or loops)[0].result()
        finally:
            self._stop.set()
            threads.shutdown(wait=False)

    def _loop(self, job_id: int, runner: RoundRunner, meter: ProgressMeter, supply: Supply) -> str:
        give_way()
        while not self._stop.is_set():
            if meter.out_of_time:
                return "time"
            with ExitStack() as ends:
                with supply.claiming:
                    room = supply.room
                    batch = self._claim(job_id, room)
                    if batch:
                        under_way = ends.enter_context(supply.under_way(open_trials(batch)))
                if batch:
                    runner.run(batch, under_way=under_way)
            if batch:
                self._report(meter, job_id, batch[0].key.op)
                continue
            if not room:
                supply.wait(_IDLE_SECONDS)
                continue
            budget = self._store.budget(job_id)
            if budget.spent >= budget.limit:
                return "budget"
            # Granted but not spent: another worker's round, which finishes, or dies and is ours.
            if budget.granted == budget.spent and all(
                task.exhausted for task in self._store.task_states(job_id)
            ):
                return "exhausted"
            self._report(meter, job_id, "waiting for another worker")
            self._stop.wait(_IDLE_SECONDS)
        return "stopped"

    def _claim(self, job_id: int, trials: int) -> list[ClaimedRound]:
        if trials == 0:
            return []
        self._plan(job_id)
        return claim_rounds(self._store, self._name, [job_id], trials)

    def _plan(self, job_id: int) -> None:
        budget = self._store.budget(job_id)
        tasks = self._store.task_states(job_id)
        left = budget.limit - budget.granted
        self._store.propose_rounds(
            job_id, propose_rounds(tasks, left, budget.limit, self._settings.sizes)
        )


def _failed(loops: Sequence[Future[str]]) -> list[Future[str]]:
    return [loop for loop in loops if loop.done() and loop.exception() is not None]
