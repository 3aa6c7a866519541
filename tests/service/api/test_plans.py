"""`POST /api/v1/plans`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from running_coordinator import running_coordinator

from tunebook.cache.access.tokens import Role
from tunebook.cache.errors import ExitCode
from tunebook.cache.queue.fleet import ServedBoard
from tunebook.cache.store import Store
from tunebook.service.cli import run

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
        ({"jobs": [{"target": TARGET}], "seconds_per_trial": 1e-300}, "invalid"),
        ({"jobs": [{"target": TARGET}], "budget": {"deadline": "2030-01-01T00:00:00"}}, "invalid"),
        ({"jobs": [{"target": TARGET, "model": "no digest"}]}, "invalid"),
        ({"jobs": [{"target": "?", "model": "0" * 64}]}, "bad-target"),
        ({"jobs": [{"target": TARGET}], "budget": {"deadline": "2020-01-01T00:00:00Z"}}, "budget"),
    ],
    ids=["nothing", "no jobs", "seconds", "no time", "zone", "digest", "target", "over"],
)
def test_a_plan_that_cannot_be_read_is_a_problem(
    client: TestClient, problem_of: Callable[[Any], str], body: dict[str, Any], kind: str
) -> None:
    answer = client.post("/api/v1/plans", json=body)
    assert problem_of(answer) == kind
    assert answer.status_code == 422


def test_the_command_line_asks_a_coordinator_for_the_same_forecast(
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Two boards are there, as only the coordinator knows."""
    store.fleet.announce("w", [ServedBoard("local", f"pi-{n}", False, 4) for n in range(2)])
    file = tmp_path / "plan.toml"
    file.write_text(
        'models = 40\ntargets = 5\ntrials = 1200\nseconds_per_trial = 0.3\n[budget]\ntime = "9h"\n'
    )
    with running_coordinator(store, role=Role.READ) as coordinator:
        token = coordinator.headers["Authorization"].removeprefix("Bearer ")
        monkeypatch.setenv("TUNEBOOK_TOKEN", token)
        code = run(["plan", str(file), "--server", coordinator.url, "--json"])
    document = json.loads(capfd.readouterr().out)
    assert code == ExitCode.BUDGET
    assert document["demand"]["seconds"] == pytest.approx(36_000)
    assert document["remedies"]["boards"] == {"local": 3}
