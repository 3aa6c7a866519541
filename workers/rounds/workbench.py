"""What a worker works with while it runs: build processes, a board, and programs by key."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tunebook.cache.errors import BoardError, TunebookError
from tunebook.cache.store import BoardPeak, Store
from tunebook.cache.targets import Target
from tunebook.tuner.search.allocation import RoundSizes
from tunebook.tuner.trials.build_pool import BuildPool
from tunebook.tuner.trials.measuring import Measurer
from tunebook.tuner.trials.peak import measure_peak
from tunebook.tuner.trials.trials import BoardAddress
from tunebook.workers.boards.quiet_machine import QuietMachine
from tunebook.workers.rounds.phase_times import PhaseClock
from tunebook.workers.rounds.programs import Programs

_log = logging.getLogger(__name__)


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
class Workbench:
    """The tools of one worker; usable while `open_workbench` is."""

    board: BoardAddress
    builds: BuildPool
    measurer: Measurer
    machine: QuietMachine
    programs: Programs
    clock: PhaseClock


@contextmanager
def open_workbench(
    store: Store, target: Target, board: BoardAddress, settings: WorkerSettings, clock: PhaseClock
) -> Iterator[Workbench]:
    """Starts the processes, and ends them on leaving; the board's peak is known by then. On leaving
    by an exception whatever still builds or measures is ended at once.

    Raises BoardError when no board can be had, and TunebookError when this machine cannot build.
    """
    with (
        open_build_pool(settings) as builds,
        workbench_on(builds, store, target, board, settings, clock) as bench,
    ):
        try:
            yield bench
        except BaseException:
            # What other threads wait for ends too, or they would go on to their last trial.
            builds.close()
            bench.measurer.close()
            raise


@contextmanager
def open_build_pool(settings: WorkerSettings) -> Iterator[BuildPool]:
    """Build processes with a folder of their own, both gone on leaving."""
    with (
        tempfile.TemporaryDirectory(prefix="tunebook-") as folder,
        BuildPool(settings.processes, settings.compile_timeout, Path(folder)) as builds,
    ):
        yield builds


@contextmanager
def workbench_on(
    builds: BuildPool,
    store: Store,
    target: Target,
    board: BoardAddress,
    settings: WorkerSettings,
    clock: PhaseClock,
) -> Iterator[Workbench]:
    """A workbench with build processes that others may use too; see `open_workbench`."""
    with (
        Measurer(
            board,
            num_cores=target.num_cores,
            board_timeout=settings.board_timeout,
            run_timeout=settings.run_timeout,
        ) as measurer,
        QuietMachine(measures_here=board.shares_host) as machine,
        closing(Programs(store, builds)) as programs,
    ):
        bench = Workbench(board, builds, measurer, machine, programs, clock)
        with machine.measuring():
            measurer.peak = _peak(store, target, bench)
        yield bench


def _peak(store: Store, target: Target, bench: Workbench) -> BoardPeak | None:
    """What the board class can do at most: measured once, then from the store. None where times
    say nothing."""
    if bench.board.emulated:
        return None
    board_class, text = bench.board.board_class, str(target)
    peak = store.board_peak(board_class, text)
    if peak is None:
        try:
            peak = measure_peak(bench.builds, bench.measurer, text)
        except BoardError:
            raise
        except TunebookError as error:
            _log.warning("times are not checked against the board's peak: %s", error)
            return None
        store.save_board_peak(board_class, text, peak)
    return peak
