"""Budgets that jobs share stay exact, whatever is done to the jobs in whichever order."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path

import pytest
from cache_samples import candidates, conv, propose_all, success
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from queue_samples import claim_searched, submit_searched

from tunebook.cache.errors import LeaseLostError
from tunebook.cache.queue.submissions import BudgetLimits
from tunebook.cache.store import ClaimedRound, Store

_numbers = count()
_STEPS = st.one_of(
    st.tuples(st.just("claim"), st.integers(1, 6)),
    st.tuples(st.just("measure"), st.integers(0, 9)),
    st.tuples(st.just("finish"), st.integers(0, 9)),
    st.tuples(st.just("cancel"), st.integers(0, 2)),
)


class _Run:
    """Three jobs with workloads in common that share a budget, and what workers do for them."""

    def __init__(self, store: Store, trials: int) -> None:
        self.store = store
        self.budget, _ = store.queue.create_budget("night", BudgetLimits(trials=trials))
        sizes = ((7, 14), (14, 28), (28, 56))
        self.jobs = [submit_searched(store, *map(conv, some), budget=self.budget) for some in sizes]
        self.claimed: list[ClaimedRound] = []
        self.modules = count()

    def take(self, step: str, number: int) -> None:
        if step == "cancel":
            self.store.queue.cancel(self.jobs[number])
        elif step == "claim":
            for job in self.jobs:
                propose_all(self.store, job, number)
            claimed = claim_searched(self.store)
            if claimed is not None:
                self.claimed.append(claimed)
        elif self.claimed:
            self._write(step, self.claimed[number % len(self.claimed)])

    def _write(self, step: str, claimed: ClaimedRound) -> None:
        """Also for rounds that are finished or closed since: late workers are refused."""
        try:
            if step == "finish":
                self.store.finish_round(claimed.id, claimed.epoch)
                return
            name = f"module-{next(self.modules)}"
            slots = self.store.store_candidates(claimed.id, claimed.epoch, candidates(name))
        except LeaseLostError:
            return
        for slot in slots:
            self.store.store_result(claimed.id, claimed.epoch, slot.number, success(1.0))


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(trials=st.integers(1, 12), steps=st.lists(_STEPS, max_size=25))
def test_no_order_of_events_grants_or_spends_more_than_the_budget(
    sqlite_template: Path, tmp_path: Path, trials: int, steps: list[tuple[str, int]]
) -> None:
    url = str(shutil.copy(sqlite_template, tmp_path / f"{next(_numbers)}.db"))
    with Store.open(url) as store:
        run = _Run(store, trials)
        for step in steps:
            run.take(*step)
            budget = store.queue.budget(run.budget)
            assert 0 <= budget.trials_spent <= budget.trials_granted <= trials
        for job in run.jobs:
            store.queue.cancel(job)
        budget = store.queue.budget(run.budget)
        assert budget.trials_granted == budget.trials_spent


@pytest.mark.parametrize("workers", [1, 3])
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(turns=st.lists(st.integers(0, 2), max_size=20))
def test_used_seconds_are_never_more_than_passed(
    sqlite_template: Path, tmp_path: Path, workers: int, turns: list[int]
) -> None:
    """Workers report in any order, each what passed since it last heard from the budget."""
    url = str(shutil.copy(sqlite_template, tmp_path / f"{next(_numbers)}.db"))
    with Store.open(url) as store:
        budget, _ = store.queue.create_budget("night", BudgetLimits(seconds=1e6))
        observed, since = [0.0] * workers, [0.0] * workers
        for now, turn in enumerate(turns, start=1):
            worker = turn % workers
            passed = now - since[worker]
            observed[worker] = store.queue.use_seconds(budget, observed[worker], passed)
            since[worker] = now
            assert observed[worker] <= now
        if workers == 1:
            assert store.queue.budget(budget).used_seconds == len(turns)
