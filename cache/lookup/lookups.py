"""Look-ups: hits on the whole key only, and everything else a miss with its reason.

Hits and misses come from one snapshot, by indexed reads: a look-up's cost does not grow with what
else the database holds.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from sqlalchemy.orm import Session

from tunebook.cache.keys import ScheduleKey
from tunebook.cache.likeness import LookupHints
from tunebook.cache.lookup.miss_finding import MissFinder
from tunebook.cache.lookup.served_queries import served_rows
from tunebook.cache.lookup.wanted_keys import batches
from tunebook.cache.misses import LookupAnswer
from tunebook.cache.records import Schedule, Source
from tunebook.cache.storage.identities import find_ids
from tunebook.cache.stored.stored_records import fastest_trusted
from tunebook.cache.untrusted.trusted_traces import is_trusted, refusal

_log = logging.getLogger(__name__)


def lookup(
    session: Session, keys: Sequence[ScheduleKey], accept_emulated: bool, hints: LookupHints
) -> LookupAnswer:
    """See Store.lookup."""
    wanted = list(dict.fromkeys(keys))
    served = _served(session, wanted, accept_emulated)
    hits: dict[ScheduleKey, Schedule] = {}
    missing_refused: dict[ScheduleKey, str] = {}
    passed_over: list[str] = []
    for key in wanted:
        schedule = served.get(key)
        if schedule is None:
            continue
        refused = refusal(schedule.trace)
        if refused is None:
            hits[key] = schedule
            continue
        trusted = _next_trusted(session, key, accept_emulated)
        told = f"record {schedule.record_id} is refused: {refused}"
        if trusted is None:
            missing_refused[key] = told
            continue
        hits[key] = trusted
        passed_over.append(f"{told}; record {trusted.record_id} of {key} is served instead")
        _log.warning("%s; `tunebook migrate` withdraws it", passed_over[-1])
    missing = [key for key in wanted if key not in hits]
    finder = MissFinder(session, accept_emulated=accept_emulated, hints=hints)
    misses = finder.find(missing, missing_refused)
    return LookupAnswer(hits=hits, misses=misses, passed_over=tuple(passed_over))


def served(session: Session, keys: Sequence[ScheduleKey], emulated: bool) -> tuple[Schedule, ...]:
    """See Store.served."""
    found = _served(session, keys, emulated).values()
    return tuple(schedule for schedule in found if schedule.emulated == emulated)


def servable(session: Session, keys: Sequence[ScheduleKey]) -> frozenset[ScheduleKey]:
    """Those of the keys that have a schedule from a real board, whose trace is trusted."""
    return frozenset(
        key for key, one in _served(session, keys, False).items() if is_trusted(one.trace)
    )


def _next_trusted(session: Session, key: ScheduleKey, accept_emulated: bool) -> Schedule | None:
    """What to serve instead of a record whose trace is refused, although it was chosen: it was
    changed since, or an earlier version allowed more."""
    ids = find_ids(session, key)
    assert ids is not None
    for emulated in (False, True) if accept_emulated else (False,):
        row = fastest_trusted(session, *ids, emulated)
        if row is not None:
            return _schedule(key, row, emulated=emulated)
    return None


def _served(
    session: Session, keys: Sequence[ScheduleKey], accept_emulated: bool
) -> dict[ScheduleKey, Schedule]:
    """What is stored to be served; a real board's before an emulated one's."""
    wanted = {
        (key.op, key.buffers, key.target, key.compiler, key.workload_hash): key for key in keys
    }
    kinds = [False, True] if accept_emulated else [False]
    served: dict[ScheduleKey, Schedule] = {}
    for target, hashes in batches(keys):
        for row in served_rows(session, target, hashes, kinds):
            key = wanted.get((row.op, row.buffers, target, row.compiler, row.hash))
            if key is not None and (not row.emulated or key not in served):
                served[key] = _schedule(key, row, emulated=row.emulated)
    return served


def _schedule(key: ScheduleKey, row: Any, *, emulated: bool) -> Schedule:
    """The schedule from anything with the columns of its record."""
    return Schedule(
        key=key,
        record_id=row.id,
        trace=row.trace,
        module_hash=row.module_hash,
        seconds=row.seconds,
        emulated=emulated,
        source=Source(row.source),
    )
