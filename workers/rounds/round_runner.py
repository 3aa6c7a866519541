"""Rounds: candidates proposed and stored, built, measured, stored again, the best verified."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import as_completed, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from tunebook.cache.errors import LeaseLostError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import Candidate, ErrorClass, Measurement, Record
from tunebook.cache.store import ClaimedRound, Slot, Store
from tunebook.tuner.trials.trials import BuildFailure, BuildRequest, BuiltLibrary
from tunebook.workers.rounds.lease import Lease, held_leases
from tunebook.workers.rounds.log_members import members_of
from tunebook.workers.rounds.proposals import Proposer
from tunebook.workers.rounds.running_round import Build, RunningRound, RunningTrial, discard
from tunebook.workers.rounds.workbench import Workbench

_log = logging.getLogger(__name__)

_Given = TypeVar("_Given")
# How often it is looked whether what is being built is still wanted.
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class RoundWatch:
    """What whoever runs rounds is told meanwhile, and asked.

    Once a round is `out_of_time`, none of its trials is begun any more, and what is left of it goes
    back to the budget. Once `stop` is set, rounds are left as they are, for a successor.
    """

    on_trial: Callable[[ClaimedRound], None]
    out_of_time: Callable[[ClaimedRound], bool]
    stop: threading.Event


class RoundRunner:
    """Runs claimed rounds on one board.

    Where the board is this machine, every candidate is built before the first is measured, so
    that nothing of ours disturbs a measurement; elsewhere the two overlap, and whoever runs
    batches `side_by_side` says so, since each then takes that share of the time that passes.
    """

    def __init__(
        self,
        store: Store,
        bench: Workbench,
        proposer: Proposer,
        watch: RoundWatch,
        *,
        side_by_side: int = 1,
    ) -> None:
        self._store = store
        self._bench = bench
        self._proposer = proposer
        self._watch = watch
        self._side_by_side = side_by_side
        self._board_lock = threading.Lock()

    def run(self, batch: Sequence[ClaimedRound], leases: Sequence[Lease] | None = None) -> None:
        """Measures what the rounds' slots leave open, and verifies the best of each. They are of
        one target and board class, and of any jobs. `leases` are theirs, where they are held by
        the caller.

        Raises BoardError when no board can be had; what was measured is stored by then.
        """
        began = self._bench.clock.now()
        builds: dict[Build, RunningTrial] = {}
        with ExitStack() as ends:
            held = (
                leases
                if leases is not None
                else ends.enter_context(held_leases(self._store, batch))
            )
            rounds = self._begin(batch, held)
            ends.callback(discard, builds)
            with self._bench.machine.working():
                for one in rounds:
                    builds.update(self._start_builds(one))
                if self._bench.board.shares_host:
                    with self._bench.clock.phase("build"):
                        self._wait_for(builds)
            with self._bench.machine.measuring():
                self._measure(builds)
                if self._watch.stop.is_set():
                    return
                for one in rounds:
                    if not one.lease.lost:
                        with self._counted(one, None):
                            self.verify_best(one.key, one.libraries)
            with self._bench.machine.working():
                for one in rounds:
                    self._learn(one)
                self._share_out(rounds, self._bench.clock.now() - began)
                for one in rounds:
                    self._end(one)

    def verify_best(self, key: ScheduleKey, libraries: Mapping[str, BuiltLibrary]) -> None:
        """Compares the fastest unverified records with the unscheduled program until one agrees.

        `libraries` holds, by module hash, what is built already.
        """
        for record in self._store.unverified_best(key, emulated=self._bench.board.emulated):
            name, told = f"{key}: record {record.id}", {"record": record.id, **members_of(key)}
            reference = self._bench.programs.reference(key)
            if reference is None:
                _log.warning("%s: no unscheduled program to verify against", name, extra=told)
                return
            library = libraries.get(record.candidate.module_hash) or self._build_again(record)
            if isinstance(library, BuildFailure):
                # It was built before it was measured: this machine's fault, or another compiler's.
                _log.warning("%s: not verified: %s", name, library.text, extra=told)
                continue
            try:
                with self._board_lock, self._bench.clock.phase("measure"):
                    verdict = self._bench.measurer.verify(
                        library, reference, self._bench.programs.program(key)
                    )
            finally:
                if record.candidate.module_hash not in libraries:
                    library.path.unlink(missing_ok=True)
            if verdict.agrees:
                self._store.mark_verified(record.id)
                return
            if self._watch.stop.is_set():
                return
            if verdict.error in (None, ErrorClass.BOARD_LOST):
                # Says nothing about the schedule: it stays unverified, for another run to verify.
                _log.warning("%s: not verified: %s", name, verdict.text, extra=told)
                return
            _log.warning("%s: %s: %s", name, verdict.error.value, verdict.text, extra=told)
            self._store.mark_failed(record.id, verdict.error, verdict.text)

    def _begin(self, batch: Sequence[ClaimedRound], leases: Sequence[Lease]) -> list[RunningRound]:
        tasks = {
            task.id: task
            for job_id in {claimed.job_id for claimed in batch}
            for task in self._store.task_states(job_id)
        }
        return [
            RunningRound(claimed, lease, tasks[claimed.task_id])
            for claimed, lease in zip(batch, leases, strict=True)
        ]

    def _unless_lost(
        self, one: RunningRound, step: Callable[[RunningRound], _Given]
    ) -> _Given | None:
        try:
            return step(one)
        except LeaseLostError:
            one.lease.lose()
            return None

    def _is_over(self, one: RunningRound) -> bool:
        """Whether no trial of a round may be begun any more."""
        return self._watch.stop.is_set() or one.lease.lost or self._watch.out_of_time(one.claimed)

    @contextmanager
    def _counted(self, one: RunningRound, phase: str | None) -> Iterator[None]:
        """Counts the block for its round, and for its phase where it has one of its own."""
        started = self._bench.clock.now()
        with ExitStack() as phases:
            if phase is not None:
                phases.enter_context(self._bench.clock.phase(phase))
            yield
        one.seconds += self._bench.clock.now() - started

    def _start_builds(self, one: RunningRound) -> dict[Build, RunningTrial]:
        if self._is_over(one):
            return {}
        slots = self._unless_lost(one, self._slots) or ()
        return {
            self._build(one.key, slot.candidate): RunningTrial(one, slot)
            for slot in slots
            if slot.record_id is None
        }

    def _slots(self, one: RunningRound) -> tuple[Slot, ...]:
        """What a predecessor stored, and new candidates for what is missing."""
        claimed = one.claimed
        missing = claimed.size - len(claimed.slots)
        if missing <= 0:
            return claimed.slots
        with self._counted(one, "search"):
            candidates = self._proposer.propose(one.task, missing)
        if not candidates:
            return claimed.slots
        new = self._store.store_candidates(claimed.id, claimed.epoch, candidates)
        return (*claimed.slots, *new)

    def _build(self, key: ScheduleKey, candidate: Candidate) -> Build:
        tir = self._bench.programs.program(key).tir
        request = BuildRequest(tir, key.target, candidate.trace, candidate.module_hash)
        return self._bench.builds.submit(request)

    def _wait_for(self, builds: Mapping[Build, RunningTrial]) -> None:
        """Until all are built; those of rounds that are over are not begun any more."""
        pending: Collection[Build] = builds.keys()
        while pending:
            pending = wait(pending, _LOOK_SECONDS).not_done
            for build in pending:
                if self._is_over(builds[build].round):
                    build.cancel()

    def _measure(self, builds: Mapping[Build, RunningTrial]) -> None:
        rounds = {trial.round.claimed.id: trial.round for trial in builds.values()}.values()
        for build in as_completed(builds):
            if all(self._is_over(one) for one in rounds):
                return
            one, slot = builds[build].round, builds[build].slot
            if build.cancelled() or self._is_over(one):
                continue
            outcome = build.result()
            one.seconds += outcome.seconds / self._bench.builds.size
            with self._counted(one, None):
                measurement = self._measure_one(one, outcome)
            if self._watch.stop.is_set() and measurement.error is ErrorClass.BOARD_LOST:
                # It was us who ended it; the slot stays open, for a successor to measure.
                return
            claimed = one.claimed
            stored = self._store.store_result(claimed.id, claimed.epoch, slot.number, measurement)
            if isinstance(outcome, BuiltLibrary):
                one.libraries[slot.candidate.module_hash] = outcome
            if not stored.repeated:
                one.results.append((slot.candidate, measurement))
                self._watch.on_trial(claimed)

    def _measure_one(self, one: RunningRound, outcome: BuiltLibrary | BuildFailure) -> Measurement:
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

    def _learn(self, one: RunningRound) -> None:
        with self._counted(one, "search"):
            self._proposer.learn(one.key, one.results)

    def _share_out(self, rounds: Sequence[RunningRound], seconds: float) -> None:
        """What each took of the time that passed for all of them."""
        counted = sum(one.seconds for one in rounds)
        for one in rounds:
            share = one.seconds / counted if counted else 1 / len(rounds)
            one.seconds = share * seconds / self._side_by_side

    def _end(self, one: RunningRound) -> None:
        if not one.lease.lost:
            self._unless_lost(one, self._finish)
        if one.lease.lost:
            _log.warning(
                "round %d: another worker has it, or it was ended", one.claimed.id, extra=one.told
            )
        else:
            _log.info("round finished", extra=one.told)

    def _finish(self, one: RunningRound) -> None:
        self._store.finish_round(one.claimed.id, one.claimed.epoch, one.seconds)

    def _build_again(self, record: Record) -> BuiltLibrary | BuildFailure:
        return self._build(record.key, record.candidate).result()
