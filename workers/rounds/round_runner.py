"""Rounds: candidates proposed and stored, built, measured, stored again, the best verified."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from tunebook.cache.errors import LeaseLostError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import ErrorClass
from tunebook.cache.store import ClaimedRound, Slot, Store
from tunebook.tuner.freed_memory import give_freed_memory_back
from tunebook.tuner.trials.build_pool import BuildFuture
from tunebook.tuner.trials.measuring import Measurer
from tunebook.tuner.trials.target_boards import result_of
from tunebook.tuner.trials.trials import (
    BuildFailure,
    BuiltLibrary,
    VerificationResult,
)
from tunebook.workers.rounds.batch_trials import BatchTrials
from tunebook.workers.rounds.lease import Lease, held_leases
from tunebook.workers.rounds.log_members import members_of
from tunebook.workers.rounds.proposals import Proposer
from tunebook.workers.rounds.round_watch import RoundWatch
from tunebook.workers.rounds.running_round import RunningRound, RunningTrial, discard
from tunebook.workers.rounds.shared_time import SharedTime
from tunebook.workers.rounds.supply import Supply, UnderWay, open_trials
from tunebook.workers.rounds.workbench import Workbench

_log = logging.getLogger(__name__)

_Given = TypeVar("_Given")
# How often it is looked whether what is being built is still wanted.
_LOOK_SECONDS = 0.5


class RoundRunner:
    """Runs claimed rounds on the boards of a workbench.

    Where the board is this machine, every candidate is built before the first is measured, so
    that nothing of ours disturbs a measurement; elsewhere the two overlap, in a batch and from
    batch to batch, which may be run side by side. The time that passes then is shared out by
    `shared_time`, and `supply` is told what trials cost.
    """

    def __init__(
        self,
        store: Store,
        bench: Workbench,
        proposer: Proposer,
        watch: RoundWatch,
        *,
        supply: Supply,
        shared_time: SharedTime | None = None,
    ) -> None:
        self._store = store
        self._bench = bench
        self._proposer = proposer
        self._watch = watch
        self._supply = supply
        self._shared_time = shared_time or SharedTime(bench.clock.now)

    def run(
        self,
        batch: Sequence[ClaimedRound],
        leases: Sequence[Lease] | None = None,
        under_way: UnderWay | None = None,
    ) -> None:
        """Measures what the rounds' slots leave open, and verifies the best of each. They are of
        one target and board class, and of any jobs. `leases` are theirs, where they are held by
        the caller, and `under_way` counts them, where the caller has claimed for a supply.

        Raises BoardError when no board can be had; what was measured is stored by then.
        """
        builds: dict[BuildFuture, RunningTrial] = {}
        with ExitStack() as ends:
            passed = ends.enter_context(self._shared_time.working())
            if leases is None:
                leases = ends.enter_context(held_leases(self._store, batch))
            if under_way is None:
                under_way = ends.enter_context(self._supply.under_way(open_trials(batch)))
            rounds = self._begin(batch, leases)
            trials = BatchTrials(self._store, self._bench, self._watch, under_way)
            ends.callback(discard, builds)
            ends.callback(trials.give_up)
            with self._bench.machine.working():
                self._make(rounds, builds, trials)
            with self._bench.machine.measuring():
                trials.store_all()
                if self._watch.stop.is_set():
                    return
                self._verify(rounds)
            with self._bench.machine.working():
                self._supply.made(
                    len(builds),
                    sum(one.search_seconds for one in rounds),
                    sum(one.build_seconds for one in rounds),
                )
                for one in rounds:
                    self._learn(one)
                self._share_out(rounds, passed())
                for one in rounds:
                    self._end(one)
        give_freed_memory_back()

    def verify_best(self, key: ScheduleKey, libraries: Mapping[str, BuiltLibrary]) -> None:
        """Compares the fastest unverified records with the unscheduled program until one agrees.

        `libraries` holds, by module hash, what is built already.
        """
        self._verify_best(key, libraries, None)

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

    @contextmanager
    def _searching(self, one: RunningRound) -> Iterator[None]:
        started = self._bench.clock.now()
        with self._bench.clock.phase("search"):
            yield
        one.search_took(self._bench.clock.now() - started)

    # --- making --------------------------------------------------------------------------------

    def _make(
        self,
        rounds: Sequence[RunningRound],
        builds: dict[BuildFuture, RunningTrial],
        trials: BatchTrials,
    ) -> None:
        """Searches and builds; where the boards are others, what is built is measured meanwhile."""
        alone = self._bench.board.shares_host
        of_rounds = []
        for one in rounds:
            of_rounds.append(self._start_builds(one))
            builds.update(of_rounds[-1])
            if not alone:
                trials.add(one, of_rounds[-1])
                trials.store_ended()
        if alone:
            with self._bench.clock.phase("build"):
                self._wait_for(builds)
            for one, its_builds in zip(rounds, of_rounds, strict=True):
                trials.add(one, its_builds)

    def _start_builds(self, one: RunningRound) -> dict[BuildFuture, RunningTrial]:
        if one.is_over(self._watch):
            return {}
        slots = self._unless_lost(one, self._slots) or ()
        return {
            self._bench.build(one.key, slot.candidate): RunningTrial(one, slot)
            for slot in slots
            if slot.record_id is None
        }

    def _slots(self, one: RunningRound) -> tuple[Slot, ...]:
        """What a predecessor stored, and new candidates for what is missing."""
        claimed = one.claimed
        missing = claimed.size - len(claimed.slots)
        if missing <= 0:
            return claimed.slots
        with self._searching(one):
            candidates = self._proposer.propose(one.task, missing)
        if not candidates:
            return claimed.slots
        new = self._store.store_candidates(claimed.id, claimed.epoch, candidates)
        return (*claimed.slots, *new)

    def _wait_for(self, builds: Mapping[BuildFuture, RunningTrial]) -> None:
        """Until all are built; those of rounds that are over are not begun any more."""
        pending: Collection[BuildFuture] = builds.keys()
        while pending:
            pending = wait(pending, _LOOK_SECONDS).not_done
            for build in pending:
                if builds[build].round.is_over(self._watch):
                    build.cancel()

    # --- verifying -----------------------------------------------------------------------------

    def _verify(self, rounds: Sequence[RunningRound]) -> None:
        """The best of each round: side by side, since there may be a board for each."""
        wanted = [one for one in rounds if not one.lease.lost]
        if len(wanted) < 2 or self._bench.board.shares_host:
            for one in wanted:
                self._verify_best(one.key, one.libraries, one)
            return
        with ThreadPoolExecutor(len(wanted), thread_name_prefix="verify") as threads:
            verified = [
                threads.submit(self._verify_best, one.key, one.libraries, one) for one in wanted
            ]
        for done in verified:
            done.result()

    def _verify_best(
        self, key: ScheduleKey, libraries: Mapping[str, BuiltLibrary], one: RunningRound | None
    ) -> None:
        for record in self._store.unverified_best(key, emulated=self._bench.board.emulated):
            name, told = f"{key}: record {record.id}", {"record": record.id, **members_of(key)}
            reference = self._bench.programs.reference(key)
            if reference is None:
                _log.warning("%s: no unscheduled program to verify against", name, extra=told)
                return
            library = (
                libraries.get(record.candidate.module_hash)
                or self._bench.build(record.key, record.candidate).result()
            )
            if isinstance(library, BuildFailure):
                # It was built before it was measured: this machine's fault, or another compiler's.
                _log.warning("%s: not verified: %s", name, library.text, extra=told)
                continue
            try:
                verdict = self._compare(key, library, reference, one)
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
            # The record's board is that which measured it, and may be another.
            text = f"{verdict.text} (verified on the board {verdict.board})"
            self._store.mark_failed(record.id, verdict.error, text)

    def _compare(
        self,
        key: ScheduleKey,
        library: BuiltLibrary,
        reference: BuiltLibrary,
        one: RunningRound | None,
    ) -> VerificationResult:
        program = self._bench.programs.program(key)

        def compare(board: Measurer) -> VerificationResult:
            with self._bench.on_board(one.board_took if one is not None else None):
                return board.verify(library, reference, program)

        return result_of(self._bench.measurer.submit(compare, urgent=True))

    # --- ending --------------------------------------------------------------------------------

    def _learn(self, one: RunningRound) -> None:
        with self._searching(one):
            self._proposer.learn(one.key, one.results)

    def _share_out(self, rounds: Sequence[RunningRound], seconds: float) -> None:
        """What each took of the time that passed for all of them."""
        counted = sum(one.seconds for one in rounds)
        for one in rounds:
            share = one.seconds / counted if counted else 1 / len(rounds)
            one.seconds = share * seconds

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
