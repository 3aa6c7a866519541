"""Rounds: candidates proposed and stored, built, measured, stored again, the best verified."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, as_completed, wait
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tunebook.cache.errors import LeaseLostError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import Candidate, ErrorClass, Measurement, Record
from tunebook.cache.store import ClaimedRound, Slot, Store, TaskState
from tunebook.tuner.trials.trials import BuildFailure, BuildRequest, BuiltLibrary
from tunebook.workers.lease import Lease
from tunebook.workers.proposals import Proposer
from tunebook.workers.workbench import Workbench

_log = logging.getLogger(__name__)

_Build = Future[BuiltLibrary | BuildFailure]
_Given = TypeVar("_Given")


@dataclass
class _Round:
    """A claimed round while it runs: its lease, its task when it began, what was built (by module
    hash) and measured."""

    claimed: ClaimedRound
    lease: Lease
    task: TaskState
    libraries: dict[str, BuiltLibrary] = field(default_factory=dict)
    results: list[tuple[Candidate, Measurement]] = field(default_factory=list)

    @property
    def key(self) -> ScheduleKey:
        return self.claimed.key

    @property
    def best_seconds(self) -> float | None:
        """The task's best time so far."""
        measured = [measurement.seconds for _, measurement in self.results]
        return min((s for s in (self.task.best_seconds, *measured) if s is not None), default=None)


@dataclass(frozen=True)
class _Trial:
    """A slot whose candidate is being built."""

    round: _Round
    slot: Slot


class RoundRunner:
    """Runs claimed rounds on one board.

    Where the board is this machine, every candidate is built before the first is measured, so
    that nothing of ours disturbs a measurement; elsewhere the two overlap. Once it is
    `out_of_time`, no further trial is begun, and what is left of a round goes back to the budget.
    Once `stop` is set, rounds are left as they are, for a successor.
    """

    def __init__(
        self,
        store: Store,
        bench: Workbench,
        proposer: Proposer,
        *,
        on_trial: Callable[[ScheduleKey], None],
        out_of_time: Callable[[], bool],
        stop: threading.Event,
    ) -> None:
        self._store = store
        self._bench = bench
        self._proposer = proposer
        self._on_trial = on_trial
        self._out_of_time = out_of_time
        self._stop = stop
        self._board_lock = threading.Lock()

    def run(self, batch: Sequence[ClaimedRound]) -> None:
        """Measures what the rounds' slots leave open, and verifies the best of each.

        Raises BoardError when no board can be had; what was measured is stored by then.
        """
        with ExitStack() as leases:
            rounds = self._begin(batch, leases)
            with self._bench.machine.working():
                builds = self._start_builds(rounds)
                if self._bench.board.shares_host:
                    with self._bench.clock.phase("build"):
                        wait(builds)
            with self._bench.machine.measuring():
                self._measure(builds)
                if self._stop.is_set():
                    return
                for one in rounds:
                    if not one.lease.lost:
                        self.verify_best(one.key, one.libraries)
            with self._bench.machine.working():
                for one in rounds:
                    self._end(one)

    def verify_best(self, key: ScheduleKey, libraries: Mapping[str, BuiltLibrary]) -> None:
        """Compares the fastest unverified records with the unscheduled program until one agrees.

        `libraries` holds, by module hash, what is built already.
        """
        for record in self._store.unverified_best(key, emulated=self._bench.board.emulated):
            library = libraries.get(record.candidate.module_hash) or self._build_again(record)
            if isinstance(library, BuildFailure):
                # It was built before it was measured: this machine's fault, or another compiler's.
                _log.warning("%s: record %d: not verified: %s", key, record.id, library.text)
                continue
            reference = self._bench.programs.reference(key)
            if reference is None:
                _log.warning("%s: no unscheduled program to verify against", key)
                return
            with self._board_lock, self._bench.clock.phase("measure"):
                verdict = self._bench.measurer.verify(
                    library, reference, self._bench.programs.program(key)
                )
            if verdict.agrees:
                self._store.mark_verified(record.id)
                return
            if self._stop.is_set():
                return
            if verdict.error in (None, ErrorClass.BOARD_LOST):
                # Says nothing about the schedule: it stays unverified, for another run to verify.
                _log.warning("%s: record %d: not verified: %s", key, record.id, verdict.text)
                return
            _log.warning("%s: record %d: %s: %s", key, record.id, verdict.error.value, verdict.text)
            self._store.mark_failed(record.id, verdict.error, verdict.text)

    def _begin(self, batch: Sequence[ClaimedRound], leases: ExitStack) -> list[_Round]:
        """Takes the leases of a batch, whose rounds are all of one job."""
        held = [leases.enter_context(Lease(self._store, claimed)) for claimed in batch]
        tasks = {task.id: task for task in self._store.task_states(batch[0].job_id)}
        return [
            _Round(claimed, lease, tasks[claimed.task_id])
            for claimed, lease in zip(batch, held, strict=True)
        ]

    def _unless_lost(self, one: _Round, step: Callable[[_Round], _Given]) -> _Given | None:
        try:
            return step(one)
        except LeaseLostError:
            one.lease.lose()
            return None

    def _start_builds(self, rounds: Sequence[_Round]) -> dict[_Build, _Trial]:
        builds: dict[_Build, _Trial] = {}
        for one in rounds:
            for slot in self._unless_lost(one, self._slots) or ():
                if slot.record_id is None:
                    builds[self._build(one.key, slot.candidate)] = _Trial(one, slot)
        return builds

    def _slots(self, one: _Round) -> tuple[Slot, ...]:
        """What a predecessor stored, and new candidates for what is missing."""
        claimed = one.claimed
        missing = claimed.size - len(claimed.slots)
        if missing <= 0:
            return claimed.slots
        with self._bench.clock.phase("search"):
            candidates = self._proposer.propose(one.task, missing)
        if not candidates:
            return claimed.slots
        new = self._store.store_candidates(claimed.id, claimed.epoch, candidates)
        return (*claimed.slots, *new)

    def _build(self, key: ScheduleKey, candidate: Candidate) -> _Build:
        tir = self._bench.programs.program(key).tir
        request = BuildRequest(tir, key.target, candidate.trace, candidate.module_hash)
        return self._bench.builds.submit(request)

    def _measure(self, builds: dict[_Build, _Trial]) -> None:
        for future in as_completed(builds):
            one, slot = builds[future].round, builds[future].slot
            outcome = future.result()
            if self._out_of_time() or self._stop.is_set():
                return
            if one.lease.lost:
                continue
            measurement = self._measure_one(one, outcome)
            if self._stop.is_set() and measurement.error is ErrorClass.BOARD_LOST:
                # It was us who ended it; the slot stays open, for a successor to measure.
                return
            claimed = one.claimed
            stored = self._store.store_result(claimed.id, claimed.epoch, slot.number, measurement)
            if isinstance(outcome, BuiltLibrary):
                one.libraries[slot.candidate.module_hash] = outcome
            if not stored.repeated:
                one.results.append((slot.candidate, measurement))
                self._on_trial(one.key)

    def _measure_one(self, one: _Round, outcome: BuiltLibrary | BuildFailure) -> Measurement:
        if isinstance(outcome, BuildFailure):
            return Measurement(
                error=outcome.error,
                error_text=outcome.text,
                board_class=self._bench.board.board_class,
                emulated=self._bench.board.emulated,
            )
        with self._board_lock, self._bench.clock.phase("measure"):
            measured = self._bench.measurer.measure(
                outcome, self._bench.programs.program(one.key), best_seconds=one.best_seconds
            )
        return replace(measured, features=outcome.features, feature_columns=outcome.feature_columns)

    def _end(self, one: _Round) -> None:
        with self._bench.clock.phase("search"):
            self._proposer.learn(one.key, one.results)
        if not one.lease.lost:
            self._unless_lost(one, self._finish)
        if one.lease.lost:
            _log.warning("round %d: lost to another worker", one.claimed.id)
        for library in one.libraries.values():
            library.path.unlink(missing_ok=True)

    def _finish(self, one: _Round) -> None:
        self._store.finish_round(one.claimed.id, one.claimed.epoch)

    def _build_again(self, record: Record) -> BuiltLibrary | BuildFailure:
        return self._build(record.key, record.candidate).result()
