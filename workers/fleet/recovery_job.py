"""The second stage of a submitted job: what its model misses is made from near traces, and what its
tasks take untuned is measured."""

from __future__ import annotations

import logging

from tunebook.cache.queue.submissions import ClaimedStage
from tunebook.tuner.compiler import compiler_text
from tunebook.tuner.llvm_targets import resolve_target
from tunebook.workers.boards.board_classes import BoardClass
from tunebook.workers.fleet.fleet_context import FleetContext
from tunebook.workers.fleet.open_workbenches import OpenWorkbench, OpenWorkbenches
from tunebook.workers.recovery.recipes import near_misses, recipes_from
from tunebook.workers.recovery.recovery import Recovery
from tunebook.workers.recovery.unusable_schedules import withdraw_unusable
from tunebook.workers.rounds.budget_clock import BudgetClock
from tunebook.workers.rounds.first_measurements import measure_untuned, verify_leftovers
from tunebook.workers.rounds.lease import Lease
from tunebook.workers.rounds.round_watch import RoundWatch

_log = logging.getLogger(__name__)


def recover_job(
    context: FleetContext,
    stage: ClaimedStage,
    lease: Lease,
    board_class: BoardClass,
    benches: OpenWorkbenches,
) -> None:
    """Recovers a job; one that boards of its class cannot serve ends as failed.

    Raises LeaseLostError where the job was cancelled meanwhile, BoardError when no board can be
    had, and TunebookError when this machine cannot build.
    """
    queue = context.store.queue
    tasks = context.store.task_states(stage.job_id)
    if not tasks or tasks[0].key.compiler != compiler_text():
        # There is nothing to recover, or it takes another worker's compiler to do it: that one
        # searches, and starts from the same traces.
        queue.finish_recovery(stage.job_id, stage.epoch)
        return
    # Of the job's own text no more than the spelling differs.
    target = resolve_target(tasks[0].key.target)
    reason = board_class.why_not(target)
    if reason is not None:
        _log.warning("a job failed: %s", reason, extra={"job": stage.job_id})
        queue.fail_stage(stage.job_id, stage.epoch, reason)
        return
    clock = BudgetClock(queue, stage.budget.id, monotonic=context.monotonic)
    with clock, benches.use(board_class, target) as one:
        _recover(context, stage, lease, clock, one)
    if not context.stop.is_set():
        queue.finish_recovery(stage.job_id, stage.epoch)


def _recover(
    context: FleetContext,
    stage: ClaimedStage,
    lease: Lease,
    clock: BudgetClock,
    one: OpenWorkbench,
) -> None:
    store, bench, job_id = context.store, one.bench, stage.job_id

    def go_on(activity: str) -> bool:
        context.activity.note(f"job {job_id}: {activity}")
        return not (context.stop.is_set() or lease.lost or clock.over)

    tasks = store.task_states(job_id)
    keys = [task.key for task in tasks]
    emulated = stage.request.emulated
    with bench.machine.measuring():
        measure_untuned(store, bench, tasks, go_on)
    with bench.machine.working():
        withdraw_unusable(store, keys, emulated=emulated)
        misses = store.lookup(keys, accept_emulated=emulated).misses
        near = near_misses(store, misses, emulated=emulated, seed=context.settings.seed)
        recipes = recipes_from(store, near, emulated=emulated)
    watch = RoundWatch(
        on_trial=lambda claimed: None, out_of_time=lambda claimed: clock.over, stop=context.stop
    )
    recovery = Recovery(store, bench, context.settings, watch, worker=context.name, go_on=go_on)
    recovery.run(job_id, recipes)
    with bench.machine.measuring():
        verify_leftovers(one.runner, store.task_states(job_id), go_on)
    counts = {"tasks": len(tasks), "misses": len(misses), "recipes": len(recipes)}
    _log.info("recovered", extra={"job": job_id, "board_class": bench.board.board_class, **counts})
