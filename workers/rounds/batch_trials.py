"""The trials of a batch on their way: built, measured on whichever board is free, and stored."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass, replace

from tunebook.cache.records import ErrorClass, Measurement
from tunebook.cache.store import Store
from tunebook.tuner.trials.build_pool import BuildFuture
from tunebook.tuner.trials.measuring import Measurer
from tunebook.tuner.trials.trials import BuildFailure, BuiltLibrary
from tunebook.workers.rounds.round_watch import RoundWatch
from tunebook.workers.rounds.running_round import RunningRound, RunningTrial
from tunebook.workers.rounds.supply import UnderWay, open_trials
from tunebook.workers.rounds.workbench import Workbench

# How often it is looked whether what is under way is still wanted.
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class _Ended:
    """A trial that goes no further: measured, given up (None), or what kept it from that."""

    trial: RunningTrial
    outcome: Measurement | BaseException | None


class BatchTrials:
    """Measures trials as soon as they are built, and stores what they gave; for one thread.

    `under_way` is told how many are left.
    """

    def __init__(
        self, store: Store, bench: Workbench, watch: RoundWatch, under_way: UnderWay
    ) -> None:
        self._store = store
        self._bench = bench
        self._watch = watch
        self._under_way = under_way
        self._ended: queue.SimpleQueue[_Ended] = queue.SimpleQueue()
        self._building: dict[BuildFuture, RunningTrial] = {}
        self._measuring: dict[Future[Measurement], RunningTrial] = {}
        self._lock = threading.Lock()
        self._left = 0
        self._rounds: list[RunningRound] = []
        self._failure: BaseException | None = None
        self._given_up = False

    def add(self, one: RunningRound, builds: Mapping[BuildFuture, RunningTrial]) -> None:
        """Measures what is being built for a round, or was."""
        self._rounds.append(one)
        self._left += len(builds)
        self._under_way.trials += len(builds) - open_trials([one.claimed])
        self._building.update(builds)
        for build in builds:
            build.add_done_callback(self._built)

    def store_ended(self) -> None:
        """Stores what has ended by now."""
        with suppress(queue.Empty):
            while True:
                self._take(self._ended.get_nowait())

    def store_all(self) -> None:
        """Waits for all trials, and stores them; for those in hand alone where no more is wanted.

        Raises what kept a trial from being measured, after those in hand: BoardError where no board
        can be had, TunebookError where this machine cannot build.
        """
        while self._left:
            if self._is_over():
                self.give_up()
                with self._lock:
                    if not self._measuring and self._ended.empty():
                        break
            with suppress(queue.Empty):
                self._take(self._ended.get(timeout=_LOOK_SECONDS))
        if self._failure is not None:
            raise self._failure

    def give_up(self) -> None:
        """What was not begun is not begun any more."""
        self._given_up = True
        for build in list(self._building):
            build.cancel()
        for measured in list(self._measuring):
            measured.cancel()

    def _take(self, ended: _Ended) -> None:
        self._left -= 1
        self._under_way.trials -= 1
        outcome, trial = ended.outcome, ended.trial
        if isinstance(outcome, BaseException):
            self._failure = self._failure or outcome
            self.give_up()
        elif outcome is not None and not self._was_ended_by_us(outcome):
            self._store_one(trial, outcome)

    def _was_ended_by_us(self, measurement: Measurement) -> bool:
        """The slot of such a trial stays open, for a successor to measure."""
        return self._watch.stop.is_set() and measurement.error is ErrorClass.BOARD_LOST

    def _store_one(self, trial: RunningTrial, measurement: Measurement) -> None:
        one, claimed = trial.round, trial.round.claimed
        stored = self._store.store_result(claimed.id, claimed.epoch, trial.slot.number, measurement)
        if not stored.repeated:
            one.results.append((trial.slot.candidate, measurement))
            self._watch.on_trial(claimed)

    def _is_over(self) -> bool:
        return self._failure is not None or all(one.is_over(self._watch) for one in self._rounds)

    # --- in the threads of builds and boards -----------------------------------------------------

    def _built(self, build: BuildFuture) -> None:
        trial = self._building[build]
        try:
            built = build.result()
            trial.round.build_took(built.seconds, self._bench.builds.size)
            if isinstance(built, BuildFailure):
                self._ended.put(_Ended(trial, self._failed_build(built)))
                return
            with self._lock:
                measured = self._bench.measurer.submit(
                    self._measured(trial, built), wanted=self._wanted(trial.round)
                )
                self._measuring[measured] = trial
        except CancelledError:
            self._ended.put(_Ended(trial, None))
        except BaseException as error:
            self._ended.put(_Ended(trial, error))
        else:
            measured.add_done_callback(self._was_measured)

    def _was_measured(self, measured: Future[Measurement]) -> None:
        outcome: Measurement | BaseException | None
        try:
            outcome = measured.result()
        except CancelledError:
            outcome = None
        except BaseException as error:
            outcome = error
        # In this order: whoever sees none measured finds all of them ended.
        self._ended.put(_Ended(self._measuring[measured], outcome))
        del self._measuring[measured]

    def _wanted(self, one: RunningRound) -> Callable[[], bool]:
        return lambda: not self._given_up and not one.is_over(self._watch)

    def _measured(
        self, trial: RunningTrial, built: BuiltLibrary
    ) -> Callable[[Measurer], Measurement]:
        one = trial.round
        program = self._bench.programs.program(one.key)

        def measure(board: Measurer) -> Measurement:
            one.libraries[trial.slot.candidate.module_hash] = built
            with self._bench.on_board(one.board_took):
                measured = board.measure(built, program, best_seconds=one.best_seconds)
            one.measured(measured)
            return replace(measured, features=built.features, feature_columns=built.feature_columns)

        return measure

    def _failed_build(self, built: BuildFailure) -> Measurement:
        board = self._bench.board
        return Measurement(
            error=built.error,
            error_text=built.text,
            board_class=board.board_class,
            emulated=board.emulated,
        )
