"""Rounds at which worker after worker ends before the first candidate: their search does that."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tunebook.cache.errors import LeaseLostError
from tunebook.cache.store import ClaimedRound, Store

_log = logging.getLogger(__name__)

# Native code that crashes takes its process along. A round's epoch rises with each claim, and when
# it is let go or its lease dies: so this is the fourth that comes without a candidate.
_LAST_EPOCH = 6


def give_hopeless_up(store: Store, rounds: Sequence[ClaimedRound]) -> list[ClaimedRound]:
    """Ends the first of those rounds and lets its task count as exhausted, so that one task does
    not end a whole fleet; gives the others.

    Rounds that are claimed together are searched in order: those before it have candidates by now,
    and those behind it were never come to.
    """
    for claimed in rounds:
        if claimed.epoch > _LAST_EPOCH and not claimed.slots:
            _give_up(store, claimed)
            return [one for one in rounds if one is not claimed]
    return list(rounds)


def _give_up(store: Store, claimed: ClaimedRound) -> None:
    told = {"job": claimed.job_id, "round": claimed.id, "op": claimed.key.op}
    _log.warning("given up: its workers ended before they had a candidate", extra=told)
    store.set_exhausted(claimed.task_id)
    try:
        store.finish_round(claimed.id, claimed.epoch)
    except LeaseLostError as error:
        _log.warning("%s", error, extra=told)
