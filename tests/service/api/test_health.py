"""Whether it lives, and which part is not ready."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

MakeClient = Callable[..., TestClient]
ProblemOf = Callable[[Any], str]


class Workers:
    """Worker processes of which only the fault matters here; real ones take seconds to start."""

    def __init__(self, fault: str | None) -> None:
        self._fault = fault

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def fault(self) -> str | None:
        return self._fault


def not_ready(response: Any) -> set[str]:
    return {part["name"] for part in response.json()["parts"] if not part["ready"]}


@pytest.mark.parametrize("workers", [None, Workers(None)], ids=["external", "embedded"])
def test_a_whole_coordinator_is_ready(make_client: MakeClient, workers: Workers | None) -> None:
    response = make_client(workers=workers).get("/readyz")
    assert response.status_code == 200
    assert response.json()["ready"] is True
    names = [part["name"] for part in response.json()["parts"]]
    assert names == ["database", "schema", "models", "worker"]


def test_it_says_that_its_worker_is_not_ready(
    make_client: MakeClient, problem_of: ProblemOf
) -> None:
    response = make_client(workers=Workers("it ended three times in a row")).get("/readyz")
    assert response.status_code == 503
    assert problem_of(response) == "not-ready"
    assert not_ready(response) == {"worker"}
    assert "three times" in response.json()["detail"]


def test_it_says_that_the_schema_is_not_ready(make_client: MakeClient, database: str) -> None:
    client = make_client()
    with sqlite3.connect(database, timeout=60) as other:
        other.execute("UPDATE alembic_version SET version_num = '0002'")
    response = client.get("/readyz")
    assert response.status_code == 503
    assert not_ready(response) == {"schema"}


def test_it_says_that_the_database_is_not_ready(make_client: MakeClient, database: str) -> None:
    client = make_client()
    Path(database).unlink()
    response = client.get("/readyz")
    assert response.status_code == 503
    assert not_ready(response) == {"database"}
    assert database not in response.text


def test_it_says_that_the_place_of_the_models_is_not_ready(
    make_client: MakeClient, tmp_path: Path
) -> None:
    client = make_client()
    shutil.rmtree(tmp_path / "models")
    (tmp_path / "models").write_text("in the way")
    response = client.get("/readyz")
    assert response.status_code == 503
    assert not_ready(response) == {"models"}


def test_it_lives_whatever_is_not_ready(make_client: MakeClient) -> None:
    response = make_client(workers=Workers("gone")).get("/healthz")
    assert response.json() == {"status": "ok"}
