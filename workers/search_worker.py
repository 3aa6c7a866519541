"""The search worker: plans, claims and runs a job's rounds until budget or time is spent."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

from tunebook.cache.errors import BoardError, TunebookError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.store import BoardPeak, ClaimedRound, Store
from tunebook.cache.targets import Target
from tunebook.tuner.allocation import RoundSizes, propose_rounds
from tunebook.tuner.build_pool import BuildPool
from tunebook.tuner.compiler import compiler_text
from tunebook.tuner.measuring import Measurer
from tunebook.tuner.peak import measure_peak
from tunebook.tuner.trials import BoardAddress
from tunebook.workers.phase_times import PhaseClock, PhaseTimes
from tunebook.workers.progress import ProgressListener, ProgressMeter
from tunebook.workers.quiet_machine import QuietMachine
from tunebook.workers.round_runner import RoundRunner
from tunebook.workers.task_tools import TaskTools

_log = logging.getLogger(__name__)
# Another worker has every open round: look again after this many seconds.
_IDLE_SECONDS = 0.5
_SIGNAL_SECONDS = 0.5
_NICENESS = 10
# Where building overlaps measuring, one round is searched for while another is measured.
_OVERLAPPING_ROUNDS = 2


@dataclass(frozen=True)
class WorkerSettings:
    """How a worker works; times in seconds, `batch` in trials that are built together."""

    seed: int = 0
    sizes: RoundSizes = field(default_factory=RoundSizes)
    batch: int = 16
    processes: int = 2
    compile_timeout: float = 60.0
    run_timeout: float = 10.0
    board_timeout: float = 60.0

    @classmethod
    def for_this_machine(cls, *, board_timeout: float, seed: int = 0) -> WorkerSettings:
        """One build process and one search thread a core."""
        cores = len(os.sched_getaffinity(0))
        return cls(seed=seed, processes=cores, board_timeout=board_timeout)


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
        settings = self._settings
        with (
            tempfile.TemporaryDirectory(prefix="tunebook-") as folder,
            BuildPool(settings.processes, settings.compile_timeout, Path(folder)) as builds,
            Measurer(
                self._board,
                num_cores=self._target.num_cores,
                board_timeout=settings.board_timeout,
                run_timeout=settings.run_timeout,
            ) as measurer,
            QuietMachine(measures_here=self._board.shares_host) as machine,
        ):
            with machine.measuring():
                measurer.peak = self._peak(builds, measurer)
            tools = TaskTools(
                self._store,
                builds,
                self._target,
                compiler_text(),
                emulated=self._board.emulated,
                threads=settings.processes,
                seed=settings.seed,
            )

            def on_trial(key: ScheduleKey) -> None:
                if meter.due:
                    self._report(meter, job_id, key.op)

            clock = PhaseClock(self._monotonic)

            def out_of_time() -> bool:
                return meter.out_of_time

            runner = RoundRunner(
                self._store,
                self._board,
                builds,
                measurer,
                tools,
                machine,
                clock,
                on_trial,
                out_of_time,
                self._stop,
            )
            with machine.measuring():
                self._measure_untuned(job_id, tools, measurer, meter)
                self._verify_leftovers(job_id, runner, meter)
            try:
                ended = self._run_rounds(job_id, runner, meter)
            except BaseException:
                # What the rounds wait for ends too, or they would go on to their last trial.
                builds.close()
                measurer.close()
                raise
        spent = self._store.budget(job_id).spent - before.spent
        return RunSummary(spent, meter.elapsed, ended, clock.times)

    def _peak(self, builds: BuildPool, measurer: Measurer) -> BoardPeak | None:
        """What the board class can do at most: measured once, then from the store. None where
        times say nothing."""
        if self._board.emulated:
            return None
        board_class, target = self._board.board_class, str(self._target)
        peak = self._store.board_peak(board_class, target)
        if peak is None:
            try:
                peak = measure_peak(builds, measurer, target)
            except BoardError:
                raise
            except TunebookError as error:
                _log.warning("times are not checked against the board's peak: %s", error)
                return None
            self._store.save_board_peak(board_class, target, peak)
        return peak

    def _measure_untuned(
        self, job_id: int, tools: TaskTools, measurer: Measurer, meter: ProgressMeter
    ) -> None:
        budget = self._store.budget(job_id)
        if budget.spent >= budget.limit:
            return
        unknown = [t for t in self._store.task_states(job_id) if t.untuned_seconds is None]
        tools.build_references([task.key for task in unknown])
        for task in unknown:
            if meter.out_of_time:
                return
            self._report(meter, job_id, f"untuned {task.key.op}")
            reference = tools.reference(task.key)
            if reference is None:
                continue
            measurement = measurer.measure(reference, tools.program(task.key))
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
            batch = self._claim_batch(job_id)
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

    def _claim_batch(self, job_id: int) -> list[ClaimedRound]:
        """Rounds that together keep every build process busy: a task's first may be a single
        trial."""
        self._plan(job_id)
        batch: list[ClaimedRound] = []
        while sum(claimed.size for claimed in batch) < self._settings.batch:
            claimed = self._store.claim_round(str(os.getpid()), job_id)
            if claimed is None:
                break
            batch.append(claimed)
        return batch

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
