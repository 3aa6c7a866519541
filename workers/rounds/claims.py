"""Claiming rounds of jobs, as many as keep every build process busy."""

from __future__ import annotations

from collections.abc import Collection

from tunebook.cache.store import ClaimedRound, Store


def claim_rounds(
    store: Store,
    worker: str,
    job_ids: Collection[int],
    trials: int,
    task_ids: Collection[int] | None = None,
    *,
    searched: bool = False,
) -> list[ClaimedRound]:
    """Claims open rounds of jobs (of these tasks only, where given; with `searched` where submitted
    jobs are searched for) until they hold so many trials together, or none is left: a task's first
    may be a single trial."""
    claimed: list[ClaimedRound] = []
    while sum(one.size for one in claimed) < trials:
        one = store.claim_round(worker, job_ids=job_ids, task_ids=task_ids, searched=searched)
        if one is None:
            break
        claimed.append(one)
    return claimed
