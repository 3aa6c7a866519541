"""`POST /api/v1/plans`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tunebook.cache.tokens import Role

TARGET = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4"
NIGHT = {
    "jobs": [
        {"name": f"model {model}", "target": f"target {target}", "board_class": "pi5"}
        for model in range(40)
        for target in range(5)
    ],
    "trials_per_job": 1200,
    "seconds_per_trial": 0.3,
    "budget": {"seconds": 43200},
}


@pytest.fixture
def client(make_client: Callable[..., TestClient]) -> TestClient:
    return make_client(Role.READ)


def test_a_plan_that_does_not_fit_is_answered_with_what_would(client: TestClient) -> None:
    answer = client.post("/api/v1/plans", json=NIGHT)
    assert answer.status_code == 200
    plan = answer.json()
    assert (plan["fits"], plan["short_of"]) == (False, ["time"])
    assert plan["demand"]["seconds"] == pytest.approx(72_000)
    remedies = plan["remedies"]
    assert (remedies["trials_per_job"], remedies["models"], remedies["targets"]) == (720, 24, 3)
    assert remedies["boards"] == {"pi5": 2}


def test_a_plan_needs_a_token(make_client: Callable[..., TestClient]) -> None:
    assert make_client().post("/api/v1/plans", json=NIGHT).status_code == 401


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({}, "invalid"),
        ({"jobs": []}, "invalid"),
        ({"jobs": [{"target": TARGET}], "budget": {"seconds": -1}}, "invalid"),
        ({"jobs": [{"target": TARGET}], "budget": {"deadline": "2030-01-01T00:00:00"}}, "invalid"),
        ({"jobs": [{"target": TARGET, "model": "no digest"}]}, "invalid"),
        ({"jobs": [{"target": "?", "model": "0" * 64}]}, "bad-target"),
        ({"jobs": [{"target": TARGET}], "budget": {"deadline": "2020-01-01T00:00:00Z"}}, "budget"),
    ],
    ids=["nothing", "no jobs", "seconds", "zone", "digest", "target", "over"],
)
def test_a_plan_that_cannot_be_read_is_a_problem(
    client: TestClient, problem_of: Callable[[Any], str], body: dict[str, Any], kind: str
) -> None:
    answer = client.post("/api/v1/plans", json=body)
    assert problem_of(answer) == kind
    assert answer.status_code == 422
