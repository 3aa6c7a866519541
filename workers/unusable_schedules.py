"""Served schedules that no build can use are failures: what is there instead is served, or made."""

from __future__ import annotations

import logging

from tunebook.cache.records import ErrorClass, Model
from tunebook.cache.store import Store
from tunebook.tuner.traces.usable import why_unusable

_log = logging.getLogger(__name__)


def withdraw_unusable(store: Store, model: Model, *, emulated: bool) -> None:
    """Marks every served record of the model's tasks as a failure whose trace is refused, does not
    replay, or gives another module than was measured; those that follow it are looked at too."""
    programs = {task.workload.key: task.workload.tir for task in model.tasks}
    pending = list(model.keys)
    while pending:
        served = store.served(pending, emulated=emulated)
        pending = []
        for schedule in served:
            reason = why_unusable(programs[schedule.key.workload], schedule)
            if reason is not None:
                _log.warning("record %d is withdrawn: %s", schedule.record_id, reason)
                store.mark_failed(schedule.record_id, ErrorClass.BUILD, reason)
                pending.append(schedule.key)
