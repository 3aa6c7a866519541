"""What a worker works with while it runs: build processes, a board, and programs by key."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tunebook.cache.errors import BoardError, TunebookError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import Candidate
from tunebook.cache.store import BoardPeak, Store
from tunebook.cache.targets import Target
from tunebook.tuner.search.allocation import RoundSizes
from tunebook.tuner.trials.board_pool import BoardPool
from tunebook.tuner.trials.build_pool import BuildFuture, BuildPool
from tunebook.tuner.trials.measuring import BoardCheck
from tunebook.tuner.trials.peak import measure_peak
from tunebook.tuner.trials.target_boards import TargetBoards, result_of
from tunebook.tuner.trials.trials import BoardAddress, BuildRequest
from tunebook.workers.boards.quiet_machine import QuietMachine
from tunebook.workers.rounds.phase_times import PhaseClock
from tunebook.workers.rounds.programs import Programs
from tunebook.workers.rounds.supply import Supply

_log = logging.getLogger(__name__)

# Boards of a class that a worker uses at once, unless it is told otherwise.
MOST_BOARDS = 8


@dataclass(frozen=True)
class WorkerSettings:
    """How a worker works; times in seconds, `batch` in trials that are built together. It uses
    `most_boards` of a class at once."""

    seed: int = 0
    sizes: RoundSizes = field(default_factory=RoundSizes)
    batch: int = 16
    processes: int = 2
    compile_timeout: float = 60.0
    run_timeout: float = 10.0
    board_timeout: float = 60.0
    most_boards: int = MOST_BOARDS

    @classmethod
    def for_this_machine(
        cls, *, board_timeout: float, seed: int = 0, most_boards: int = MOST_BOARDS
    ) -> WorkerSettings:
        """One build process and one search thread a core."""
        cores = len(os.sched_getaffinity(0))
        return cls(seed=seed, processes=cores, board_timeout=board_timeout, most_boards=most_boards)


@dataclass(frozen=True)
class Workbench:
    """The tools of one worker; usable while `open_workbench` is. `measurer` measures on the boards
    at `board`."""

    board: BoardAddress
    builds: BuildPool
    measurer: TargetBoards
    machine: QuietMachine
    programs: Programs
    clock: PhaseClock

    def build(self, key: ScheduleKey, candidate: Candidate) -> BuildFuture:
        """Begins to build a candidate."""
        tir = self.programs.program(key).tir
        return self.builds.submit(
            BuildRequest(tir, key.target, candidate.trace, candidate.module_hash)
        )

    @contextmanager
    def on_board(self, took: Callable[[float, int], None] | None) -> Iterator[None]:
        """Counts the block for measuring; `took` is told its seconds, and how many boards are used
        meanwhile."""
        started = self.clock.now()
        with self.clock.phase("measure"):
            yield
        if took is not None:
            took(self.clock.now() - started, self.measurer.pool.held)


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
        open_board_pool(board, settings) as boards,
        workbench_on(builds, boards, store, target, board, clock) as bench,
    ):
        try:
            yield bench
        except BaseException:
            # What other threads wait for ends too, or they would go on to their last trial.
            builds.close()
            boards.end()
            raise


def open_board_pool(
    board: BoardAddress, settings: WorkerSettings, check: BoardCheck | None = None
) -> BoardPool:
    """The boards of a class, of which none is held before the first trial: only the process that
    will measure starts. `check` is asked about each that a session is opened on."""
    boards = BoardPool(
        board,
        most_boards=settings.most_boards,
        board_timeout=settings.board_timeout,
        run_timeout=settings.run_timeout,
        check=check,
    )
    boards.start()
    return boards


def supply_for(boards: BoardPool, settings: WorkerSettings) -> Supply:
    """What is to be under way for these boards."""
    return Supply(
        processes=settings.processes,
        batch=settings.batch,
        boards=lambda: boards.boards,
        seconds_on_board=lambda: boards.seconds_per_trial,
    )


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
    boards: BoardPool,
    store: Store,
    target: Target,
    board: BoardAddress,
    clock: PhaseClock,
) -> Iterator[Workbench]:
    """A workbench with build processes and boards that others may use too; see `open_workbench`.
    `board` is the way to those of them that run the target's code."""
    with (
        QuietMachine(measures_here=board.shares_host) as machine,
        closing(Programs(store, builds)) as programs,
    ):
        measurer = TargetBoards(boards, target.num_cores, board.features)
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
            peak = result_of(
                bench.measurer.submit(lambda board: measure_peak(bench.builds, board, text))
            )
        except BoardError:
            raise
        except TunebookError as error:
            _log.warning("times are not checked against the board's peak: %s", error)
            return None
        store.save_board_peak(board_class, text, peak)
    return peak
