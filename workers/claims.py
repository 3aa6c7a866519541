"""Claiming rounds of a job, as many as keep every build process busy."""

from __future__ import annotations

import os
from collections.abc import Collection

from tunebook.cache.store import ClaimedRound, Store


def claim_rounds(
    store: Store, job_id: int, trials: int, task_ids: Collection[int] | None = None
) -> list[ClaimedRound]:
    """Claims open rounds of a job (of these tasks only, where given) until they hold so many trials
    together, or none is left: a task's first may be a single trial."""
    claimed: list[ClaimedRound] = []
    while sum(one.size for one in claimed) < trials:
        one = store.claim_round(str(os.getpid()), job_id, task_ids=task_ids)
        if one is None:
            break
        claimed.append(one)
    return claimed
