"""A lane: boards that are served one after the other, by one loop or by several that overlap."""

from __future__ import annotations

import logging
import math
import threading
import traceback
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from tunebook.cache.errors import (
    BoardError,
    DatabaseError,
    LeaseLostError,
    ServerError,
    TunebookError,
)
from tunebook.cache.queue.submissions import RECOVER, SPLIT, ClaimedStage
from tunebook.cache.store import ClaimedRound
from tunebook.tuner.llvm_targets import resolve_target
from tunebook.tuner.one_line import one_line
from tunebook.workers.boards.board_classes import BoardClass
from tunebook.workers.fleet.board_upkeep import BoardUpkeep
from tunebook.workers.fleet.fleet_context import FleetContext
from tunebook.workers.fleet.held_claims import HeldClaims
from tunebook.workers.fleet.open_workbenches import OpenWorkbenches
from tunebook.workers.fleet.recovery_job import recover_job
from tunebook.workers.fleet.reference_checks import ReferenceChecks
from tunebook.workers.fleet.shared_builds import SharedBuilds
from tunebook.workers.fleet.splitting_job import split_job
from tunebook.workers.rounds.budget_clock import BudgetClock
from tunebook.workers.rounds.hopeless_rounds import give_hopeless_up
from tunebook.workers.rounds.job_planner import ClaimedBatch, JobPlanner
from tunebook.workers.rounds.lease import Lease, held_leases
from tunebook.workers.rounds.round_loops import give_way
from tunebook.workers.rounds.round_watch import RoundWatch
from tunebook.workers.rounds.supply import UnderWay, open_trials

_log = logging.getLogger(__name__)

# After something went wrong that may go better later: a database that is away, a board.
_PAUSE_SECONDS = 5.0
_STAGE_PAUSE_SECONDS = 30.0
# How often a loop that has enough under way looks for other work.
_FULL_SECONDS = 0.5


class Lane:
    """Serves boards of some classes for all jobs: stages first, then the round with the highest
    gain.

    A lane of boards on this machine has one loop, so that nothing runs beside a measurement;
    elsewhere several overlap searching, building and measuring, and claim no more than the boards
    take meanwhile.
    """

    def __init__(
        self,
        context: FleetContext,
        classes: Sequence[BoardClass],
        builds: SharedBuilds,
        references: ReferenceChecks,
        *,
        loops: int,
    ) -> None:
        self._context = context
        self._classes = {one.name: one for one in classes}
        self._planner = JobPlanner(
            context.store, context.name, context.settings.sizes, monotonic=context.monotonic
        )
        self._clocks: dict[tuple[int, int], BudgetClock] = {}
        watch = RoundWatch(self._on_trial, self._out_of_time, context.stop)
        self._benches = OpenWorkbenches(
            context.store,
            builds,
            context.settings,
            watch,
            check=references.why_not,
            monotonic=context.monotonic,
        )
        self._upkeep = BoardUpkeep(context, classes, self._benches, references)
        self._threads = [
            threading.Thread(target=self._run, name=f"lane-{number}", daemon=True)
            for number in range(loops)
        ]
        self._no_stage_until = -math.inf
        self._claims = HeldClaims()
        self.failed: BaseException | None = None

    def start(self) -> None:
        """Starts its loops; `failed` says what ended one before the worker's stop."""
        for thread in self._threads:
            thread.start()

    def end_at_once(self) -> None:
        """Ends what is measured now; the worker's stop is set before."""
        self._benches.end_at_once()
        self._upkeep.end_at_once()

    def leave(self, until: float) -> bool:
        """Waits for its loops to end, until a moment of the monotonic clock at most, and lets go of
        what it holds; whether they ended, and nothing of it is left."""
        for thread in self._threads:
            thread.join(max(0.0, until - self._context.monotonic()))
        self._claims.release_all()
        if any(thread.is_alive() for thread in self._threads):
            return False
        self._benches.close()
        return True

    def _run(self) -> None:
        give_way()
        while not self._context.stop.is_set():
            try:
                if not self._turn():
                    self._idle()
            except LeaseLostError as error:
                _log.warning("%s", error, extra=self._told)
            except (BoardError, DatabaseError, ServerError) as error:
                self._log_unless_stopping(error)
                self._context.stop.wait(_PAUSE_SECONDS)
            except BaseException as error:
                if not self._context.stop.is_set():
                    self.failed = error
                return

    def _idle(self) -> None:
        self._context.activity.note("")
        self._planner.nothing_to_do()
        self._benches.give_boards_back()
        if self._upkeep.while_idle():
            return
        bell = self._context.bell
        bell.wait(bell.look_seconds, self._context.stop)

    def _log_unless_stopping(self, error: TunebookError) -> None:
        if not self._context.stop.is_set():
            _log.warning("%s; it is tried again in %g s", error, _PAUSE_SECONDS, extra=self._told)

    @property
    def _told(self) -> dict[str, object]:
        """What a log says of it."""
        return {"worker": self._context.name, "board_classes": ", ".join(self._classes)}

    def _turn(self) -> bool:
        """Does one thing, if there is one to do."""
        self._claims.release_owed()
        self._upkeep.between_jobs()
        there = self._upkeep.usable
        stage = self._claim_stage(there)
        if stage is not None:
            self._carry_out(stage)
            return True
        supply = self._benches.supply
        with ExitStack() as ends:
            with supply.claiming:
                room = supply.room
                batch = self._planner.claim(there, room) if room else None
                if batch is not None:
                    under_way = ends.enter_context(supply.under_way(open_trials(batch.rounds)))
            if batch is not None:
                self._run_rounds(batch, under_way)
        if not room:
            supply.wait(_FULL_SECONDS)
        return batch is not None or not room

    def _claim_stage(self, there: Sequence[str]) -> ClaimedStage | None:
        if self._context.monotonic() < self._no_stage_until:
            return None
        queue = self._context.store.queue
        return queue.claim_stage(self._context.name, (SPLIT, RECOVER), there)

    # --- stages --------------------------------------------------------------------------------

    def _carry_out(self, stage: ClaimedStage) -> None:
        context, queue = self._context, self._context.store.queue
        context.activity.note(f"job {stage.job_id}: {stage.stage}")
        told = {
            "job": stage.job_id,
            "stage": stage.stage,
            "target": stage.request.target,
            "board_class": stage.request.board_class,
        }
        _log.info("a stage was claimed", extra=told)
        beat = partial(queue.beat_stage, stage.job_id, stage.epoch)
        with self._claims.held(partial(queue.release_stage, stage.job_id, stage.epoch)):
            try:
                with Lease(f"job {stage.job_id}", beat) as lease:
                    self._do(stage, lease)
            except LeaseLostError:
                raise
            except TunebookError:
                # It would be claimed first each time, and no round would be run any more.
                self._no_stage_until = context.monotonic() + _STAGE_PAUSE_SECONDS
                raise
            except Exception as error:  # TVM raises whatever it likes
                if context.stop.is_set():
                    return
                _log.exception("an unexpected error", extra=told)
                log = traceback.format_exc()
                queue.fail_stage(stage.job_id, stage.epoch, _unexpected(error), log)

    def _do(self, stage: ClaimedStage, lease: Lease) -> None:
        if stage.stage == SPLIT:
            split_job(self._context, stage, lease)
            return
        board_class = self._classes[stage.request.board_class]
        with board_class.away_where_lost():
            recover_job(self._context, stage, lease, board_class, self._benches)

    # --- rounds --------------------------------------------------------------------------------

    def _run_rounds(self, batch: ClaimedBatch, under_way: UnderWay) -> None:
        rounds, first = batch.rounds, batch.rounds[0]
        board_class = self._classes[first.board_class]
        target = resolve_target(first.key.target)
        with self._claims.held(*(partial(self._release_round, claimed) for claimed in rounds)):
            reason = board_class.why_not(target)
            if reason is not None:
                for job_id in {claimed.job_id for claimed in rounds}:
                    self._planner.leave_out(job_id, reason)
                return
            self._note("searching", first)
            try:
                hopeful = give_hopeless_up(self._context.store, rounds)
                with (
                    # Opening a workbench may take longer than a lease lasts.
                    held_leases(self._context.store, hopeful) as leases,
                    self._clock_of(batch),
                    board_class.away_where_lost(),
                    self._benches.use(board_class, target) as one,
                ):
                    one.runner.run(hopeful, leases, under_way)
            except TunebookError:
                raise
            except Exception as error:  # TVM raises whatever it likes
                if not self._context.stop.is_set():
                    self._blame({claimed.job_id for claimed in rounds}, error)
        self._planner.finished(rounds)

    def _blame(self, job_ids: Collection[int], error: Exception) -> None:
        """A worker that ended of it would come back to the same round; so the job ends. Of several
        nobody knows whose fault it was: each is tried by itself."""
        _log.exception("an unexpected error", extra={"jobs": sorted(job_ids)})
        if len(job_ids) > 1:
            self._planner.separate(job_ids)
            return
        for job_id in job_ids:
            self._context.store.queue.fail(job_id, _unexpected(error), traceback.format_exc())

    @contextmanager
    def _clock_of(self, batch: ClaimedBatch) -> Iterator[None]:
        queue, monotonic = self._context.store.queue, self._context.monotonic
        with BudgetClock(queue, batch.budget_id, monotonic=monotonic) as clock:
            self._clocks.update({_claim_of(claimed): clock for claimed in batch.rounds})
            try:
                yield
            finally:
                for claimed in batch.rounds:
                    del self._clocks[_claim_of(claimed)]

    def _release_round(self, claimed: ClaimedRound) -> None:
        self._context.store.release_round(claimed.id, claimed.epoch)

    def _out_of_time(self, claimed: ClaimedRound) -> bool:
        return self._clocks[_claim_of(claimed)].over

    def _on_trial(self, claimed: ClaimedRound) -> None:
        self._note("measuring", claimed)

    def _note(self, activity: str, claimed: ClaimedRound) -> None:
        self._context.activity.note(
            f"job {claimed.job_id}: {activity} {claimed.key.op} on {claimed.board_class}"
        )


def _claim_of(claimed: ClaimedRound) -> tuple[int, int]:
    """A round that was lost may be claimed again by another loop."""
    return claimed.id, claimed.epoch


def _unexpected(error: Exception) -> str:
    return f"unexpected {type(error).__name__}: {one_line(error)}"
