"""Served schedules that no build can use are failures: what is there instead is served, or made."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import ErrorClass
from tunebook.cache.store import Store
from tunebook.tuner.traces.usable import why_unusable
from tunebook.workers.rounds.log_members import members_of

_log = logging.getLogger(__name__)


def withdraw_unusable(store: Store, keys: Sequence[ScheduleKey], *, emulated: bool) -> None:
    """Marks every served record of these keys as a failure whose trace is refused, does not replay,
    or gives another module than was measured; those that follow it are looked at too."""
    pending = list(keys)
    while pending:
        served = store.served(pending, emulated=emulated)
        pending = []
        for schedule in served:
            program = store.workload(schedule.key.workload).tir
            reason = why_unusable(program, schedule)
            if reason is not None:
                _log.warning(
                    "record %d is withdrawn: %s",
                    schedule.record_id,
                    reason,
                    extra=members_of(schedule.key),
                )
                store.mark_failed(schedule.record_id, ErrorClass.BUILD, reason)
                pending.append(schedule.key)
