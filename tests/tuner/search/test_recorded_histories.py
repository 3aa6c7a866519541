"""The allocation on recorded trial histories, as tests/benchmarks/budget.py replays them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tunebook.tuner.search.allocation import RoundSizes

_BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "budget.py"


@pytest.fixture(scope="module")
def budget() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tunebook_budget_benchmark", _BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def models(budget: ModuleType) -> Any:
    found = budget.read_histories(budget.HISTORIES)
    assert len(found) == 3
    return found


def test_half_the_trials_of_an_even_split_make_the_models_as_fast(
    budget: ModuleType, models: Any
) -> None:
    for number in budget.TRIALS_PER_TASK:
        assert budget.compare(models, number).share_of_trials <= 0.5


def test_an_even_split_is_as_fast_as_the_tasks_first_trials(
    budget: ModuleType, models: Any
) -> None:
    for model in models:
        fastest = [
            min(
                (seconds for seconds in task.trials[:16] if seconds is not None),
                default=task.task.untuned_seconds,
            )
            for task in model.tasks
        ]
        weights = [task.task.weight for task in model.tasks]
        expected = sum(w * s for w, s in zip(weights, fastest, strict=True))
        assert model.even_latency(16) == pytest.approx(expected)


def test_a_replay_spends_its_budget_and_tries_every_task(budget: ModuleType, models: Any) -> None:
    tasks = sum(len(model.tasks) for model in models)
    rehearsal = budget.replay(models, 5 * tasks, RoundSizes())
    spent = sum(one.trials for one in iter(rehearsal.step, None))
    assert spent == 5 * tasks
    assert all(task.trials > 0 for job in rehearsal.jobs for task in job)


def test_trials_beyond_a_recording_cost_and_bring_nothing(budget: ModuleType, models: Any) -> None:
    history = next(task for task in models[0].tasks if not task.exhausted)
    recorded = len(history.trials)
    assert history.after(recorded + 100).best_seconds == history.after(recorded).best_seconds
    assert history.after(recorded + 100).trials == recorded + 100


def test_a_search_that_ended_is_asked_for_no_more(budget: ModuleType, models: Any) -> None:
    rehearsal = budget.replay(models, 10_000, RoundSizes())
    spent = sum(one.trials for one in iter(rehearsal.step, None))
    assert spent == 10_000
    for model, job in zip(models, rehearsal.jobs, strict=True):
        for history, task in zip(model.tasks, job, strict=True):
            assert not history.exhausted or task.trials <= len(history.trials)
