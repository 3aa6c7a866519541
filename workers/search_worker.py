"""The search worker: plans, claims and runs a job's rounds until budget or time is spent."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.store import Store
from tunebook.cache.targets import Target
from tunebook.tuner.compiler import compiler_text
from tunebook.tuner.search.allocation import propose_rounds
from tunebook.tuner.trials.trials import BoardAddress
from tunebook.workers.claims import claim_rounds
from tunebook.workers.phase_times import PhaseClock, PhaseTimes
from tunebook.workers.progress import ProgressListener, ProgressMeter
from tunebook.workers.proposals import SearchProposer
from tunebook.workers.round_runner import RoundRunner
from tunebook.workers.workbench import Workbench, WorkerSettings, open_workbench

_log = logging.getLogger(__name__)
# Another worker has every open round: look again after this many seconds.
_IDLE_SECONDS = 0.5
_SIGNAL_SECONDS = 0.5
_NICENESS = 10
# Where building overlaps measuring, one round is searched for while another is measured.
_OVERLAPPING_ROUNDS = 2


@dataclass(frozen=True)
class RunSummary:
    """What one run of a worker did: `trials` measured in `seconds`, and why it ended:
    `budget`, `time` or `exhausted`."""

    trials: int
    seconds: float
    ended: str
    times: PhaseTimes = field(default_factory=PhaseTimes)


class SearchWorker:
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
        self._stop = threading.Event()

    def run(self, job_id: int, seconds: float | None = None) -> RunSummary:
        """Runs rounds until the budget is spent, `seconds` are over, or nothing is left to try.

        Overruns `seconds` by less than a round. Raises BoardError when no board can be had, and
        TunebookError when this machine cannot build.
        """
        before = self._store.budget(job_id)
        meter = ProgressMeter(self._listener, self._monotonic, before, seconds)
        clock = PhaseClock(self._monotonic)
        with open_workbench(self._store, self._target, self._board, self._settings, clock) as bench:
            runner = self._runner(job_id, bench, meter)
            with bench.machine.measuring():
                self._measure_untuned(job_id, bench, meter)
                self._verify_leftovers(job_id, runner, meter)
            ended = self._run_rounds(job_id, runner, meter)
        spent = self._store.budget(job_id).spent - before.spent
        return RunSummary(spent, meter.elapsed, ended, clock.times)

    def _runner(self, job_id: int, bench: Workbench, meter: ProgressMeter) -> RoundRunner:
        proposer = SearchProposer(
            self._store,
            bench.programs,
            self._target,
            compiler_text(),
            emulated=self._board.emulated,
            threads=self._settings.processes,
            seed=self._settings.seed,
        )

        def on_trial(key: ScheduleKey) -> None:
            if meter.due:
                self._report(meter, job_id, key.op)

        def out_of_time() -> bool:
            return meter.out_of_time

        return RoundRunner(
            self._store,
            bench,
            proposer,
            on_trial=on_trial,
            out_of_time=out_of_time,
            stop=self._stop,
        )

    def _measure_untuned(self, job_id: int, bench: Workbench, meter: ProgressMeter) -> None:
        budget = self._store.budget(job_id)
        if budget.spent >= budget.limit:
            return
        unknown = [t for t in self._store.task_states(job_id) if t.untuned_seconds is None]
        bench.programs.build_references([task.key for task in unknown])
        for task in unknown:
            if meter.out_of_time:
                return
            self._report(meter, job_id, f"untuned {task.key.op}")
            reference = bench.programs.reference(task.key)
            if reference is None:
                continue
            measurement = bench.measurer.measure(reference, bench.programs.program(task.key))
            if measurement.seconds is None:
                _log.warning("%s: untuned program: %s", task.key, measurement.error_text)
            else:
                self._store.set_untuned_seconds(task.id, measurement.seconds)

    def _verify_leftovers(self, job_id: int, runner: RoundRunner, meter: ProgressMeter) -> None:
        """A run that was killed may have left its best records unverified."""
        for task in self._store.task_states(job_id):
            if meter.out_of_time:
                return
            if task.best_seconds is not None and task.best_seconds != task.served_seconds:
                runner.verify_best(task.key, {})

    def _run_rounds(self, job_id: int, runner: RoundRunner, meter: ProgressMeter) -> str:
        rounds = 1 if self._board.shares_host else _OVERLAPPING_ROUNDS
        threads = ThreadPoolExecutor(rounds, thread_name_prefix="round")
        loops = [threads.submit(self._loop, job_id, runner, meter) for _ in range(rounds)]
        try:
            # An endless wait would not hear a signal that another thread got.
            while wait(loops, _SIGNAL_SECONDS, FIRST_EXCEPTION).not_done and not _failed(loops):
                pass
            return (_failed(loops) or loops)[0].result()
        finally:
            self._stop.set()
            threads.shutdown(wait=False)

    def _loop(self, job_id: int, runner: RoundRunner, meter: ProgressMeter) -> str:
        # Like the build processes: a search that overlaps a measurement must not disturb it.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        while not self._stop.is_set():
            if meter.out_of_time:
                return "time"
            self._plan(job_id)
            batch = claim_rounds(self._store, job_id, self._settings.batch)
            if batch:
                runner.run(batch)
                self._report(meter, job_id, batch[0].key.op)
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

    def _plan(self, job_id: int) -> None:
        budget = self._store.budget(job_id)
        tasks = self._store.task_states(job_id)
        left = budget.limit - budget.granted
        self._store.propose_rounds(
            job_id, propose_rounds(tasks, left, budget.limit, self._settings.sizes)
        )

    def _report(self, meter: ProgressMeter, job_id: int, activity: str) -> None:
        meter.report(self._store.budget(job_id), self._store.task_states(job_id), activity)


def _failed(loops: Sequence[Future[str]]) -> list[Future[str]]:
    return [loop for loop in loops if loop.done() and loop.exception() is not None]
