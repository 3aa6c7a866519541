"""One round: candidates proposed and stored, built, measured, stored again, the best verified."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, as_completed, wait
from dataclasses import dataclass, replace

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import Candidate, ErrorClass, Measurement, Record
from tunebook.cache.store import ClaimedRound, Slot, Store
from tunebook.tuner.build_pool import BuildPool
from tunebook.tuner.measuring import Measurer
from tunebook.tuner.trials import BoardAddress, BuildFailure, BuildRequest, BuiltLibrary
from tunebook.workers.lease import Lease
from tunebook.workers.phase_times import PhaseClock
from tunebook.workers.task_tools import TaskTools

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Built:
    slot: Slot
    outcome: BuiltLibrary | BuildFailure


class RoundRunner:
    """Runs claimed rounds on one board.

    Where the board is this machine, every candidate of a round is built before the first is
    measured, so that nothing of ours disturbs a measurement; elsewhere the two overlap.
    """

    def __init__(
        self,
        store: Store,
        board: BoardAddress,
        builds: BuildPool,
        measurer: Measurer,
        tools: TaskTools,
        clock: PhaseClock,
        on_trial: Callable[[ScheduleKey], None],
    ) -> None:
        self._store = store
        self._board = board
        self._builds = builds
        self._measurer = measurer
        self._tools = tools
        self._clock = clock
        self._on_trial = on_trial
        self._board_lock = threading.Lock()

    def run(self, claimed: ClaimedRound) -> None:
        """Measures what the round's slots leave open, and verifies the best.

        Raises BoardError when no board can be had; what was measured is stored by then.
        """
        with Lease(self._store, claimed) as lease:
            slots = self._slots(claimed)
            libraries = self._measure_slots(claimed, slots, lease)
            if lease.lost:
                _log.warning("round %d: lost to another worker", claimed.id)
                return
            self.verify_best(claimed.key, libraries)
            self._store.finish_round(claimed.id, claimed.epoch)

    def verify_best(self, key: ScheduleKey, libraries: dict[str, BuiltLibrary]) -> None:
        """Compares the fastest unverified records with the unscheduled program until one agrees.

        `libraries` holds, by module hash, what is built already.
        """
        for record in self._store.unverified_best(key):
            library = libraries.get(record.candidate.module_hash) or self._build_again(record)
            if isinstance(library, BuildFailure):
                self._store.mark_failed(record.id, library.error, library.text)
                continue
            reference = self._tools.reference(key)
            if reference is None:
                _log.warning("%s: no unscheduled program to verify against", key)
                return
            with self._board_lock, self._clock.phase("measure"):
                verdict = self._measurer.verify(library, reference, self._tools.program(key))
            if verdict.agrees:
                self._store.mark_verified(record.id)
                return
            if verdict.error in (None, ErrorClass.BOARD_LOST):
                # Says nothing about the schedule: it stays unverified, for another run to verify.
                _log.warning("%s: record %d: not verified: %s", key, record.id, verdict.text)
                return
            _log.warning("%s: record %d: %s: %s", key, record.id, verdict.error.value, verdict.text)
            self._store.mark_failed(record.id, verdict.error, verdict.text)

    def _slots(self, claimed: ClaimedRound) -> tuple[Slot, ...]:
        missing = claimed.size - len(claimed.slots)
        if missing <= 0:
            return claimed.slots
        tasks = self._store.task_states(claimed.job_id)
        (task,) = [one for one in tasks if one.id == claimed.task_id]
        with self._clock.phase("search"):
            candidates = self._tools.propose(task, missing)
        if len(candidates) * 2 < missing:
            self._store.set_exhausted(claimed.task_id)
        if not candidates:
            return claimed.slots
        new = self._store.store_candidates(claimed.id, claimed.epoch, candidates)
        return (*claimed.slots, *new)

    def _measure_slots(
        self, claimed: ClaimedRound, slots: Iterable[Slot], lease: Lease
    ) -> dict[str, BuiltLibrary]:
        libraries: dict[str, BuiltLibrary] = {}
        results: list[tuple[Candidate, Measurement]] = []
        for built in self._build(claimed.key, [slot for slot in slots if slot.record_id is None]):
            if lease.lost:
                break
            measurement = self._measure(claimed.key, built.outcome)
            stored = self._store.store_result(
                claimed.id, claimed.epoch, built.slot.number, measurement
            )
            if isinstance(built.outcome, BuiltLibrary):
                libraries[built.slot.candidate.module_hash] = built.outcome
            if not stored.repeated:
                results.append((built.slot.candidate, measurement))
                self._on_trial(claimed.key)
        with self._clock.phase("search"):
            self._tools.learn(claimed.key, results)
        return libraries

    def _build(self, key: ScheduleKey, slots: list[Slot]) -> Iterator[_Built]:
        program = self._tools.program(key)
        pending: dict[Future[BuiltLibrary | BuildFailure], Slot] = {}
        for slot in slots:
            candidate = slot.candidate
            request = BuildRequest(program.tir, key.target, candidate.trace, candidate.module_hash)
            pending[self._builds.submit(request)] = slot
        if self._board.shares_host:
            with self._clock.phase("build"):
                wait(pending)
        for future in as_completed(pending):
            yield _Built(pending[future], future.result())

    def _measure(self, key: ScheduleKey, outcome: BuiltLibrary | BuildFailure) -> Measurement:
        if isinstance(outcome, BuildFailure):
            return Measurement(
                error=outcome.error,
                error_text=outcome.text,
                board_class=self._board.board_class,
                emulated=self._board.emulated,
            )
        with self._board_lock, self._clock.phase("measure"):
            measured = self._measurer.measure(outcome, self._tools.program(key))
        return replace(measured, features=outcome.features, feature_columns=outcome.feature_columns)

    def _build_again(self, record: Record) -> BuiltLibrary | BuildFailure:
        program = self._tools.program(record.key)
        candidate = record.candidate
        request = BuildRequest(
            program.tir, record.key.target, candidate.trace, candidate.module_hash
        )
        return self._builds.submit(request).result()
