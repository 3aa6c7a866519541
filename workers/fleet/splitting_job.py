"""The first stage of a submitted job: its model is fetched, checked, and split."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

from tunebook.cache.errors import ModelError, NotFoundError, UsageError
from tunebook.cache.queue.submissions import ClaimedStage
from tunebook.cache.records import Model
from tunebook.workers.boards.quiet_machine import QuietMachine
from tunebook.workers.fleet.fleet_context import FleetContext
from tunebook.workers.fleet.model_fetching import fetch_model
from tunebook.workers.fleet.untrusted_models import (
    NotWantedError,
    SplitRequest,
    UnsplittableModelError,
    split_untrusted,
)
from tunebook.workers.rounds.budget_clock import BudgetClock
from tunebook.workers.rounds.lease import Lease

_log = logging.getLogger(__name__)


def split_job(context: FleetContext, stage: ClaimedStage, lease: Lease) -> None:
    """Splits a job's model and stores it; a model that cannot be split ends the job as failed.

    Raises LeaseLostError where the job was cancelled meanwhile, and TunebookError where it is not
    the model's fault.
    """
    queue = context.store.queue
    clock = BudgetClock(queue, stage.budget.id, monotonic=context.monotonic)
    try:
        with clock:
            model = _split(context, stage, lease, clock)
    except NotWantedError:
        return
    except (ModelError, NotFoundError, UsageError) as error:
        log = error.log if isinstance(error, UnsplittableModelError) else ""
        _log.warning("a job failed: %s", error, extra={"job": stage.job_id})
        queue.fail_stage(stage.job_id, stage.epoch, str(error), log)
        return
    model_id = context.store.save_model(model)
    queue.finish_split(stage.job_id, stage.epoch, model_id)
    _log.info("a model was split", extra={"job": stage.job_id, "tasks": len(model.tasks)})


def _split(context: FleetContext, stage: ClaimedStage, lease: Lease, clock: BudgetClock) -> Model:
    request = stage.request

    def wanted() -> bool:
        return not (lease.lost or clock.over or context.stop.is_set())

    with (
        tempfile.TemporaryDirectory(prefix="tunebook-model-") as folder,
        QuietMachine(measures_here=True) as machine,
        machine.working(),
    ):
        path = Path(folder, f"{request.digest}.onnx")
        fetch_model(context.models, request.digest, path)
        return split_untrusted(
            SplitRequest(
                path,
                request.name or f"model {request.digest[:12]}",
                request.shapes,
                request.target,
                request.choices,
                context.limits.memory,
            ),
            context.limits,
            wanted,
        )
