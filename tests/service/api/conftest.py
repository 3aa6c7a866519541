"""A coordinator in this process, on a database of its own."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tunebook.cache.access.tokens import Role
from tunebook.cache.storage.database import upgrade
from tunebook.cache.store import Store
from tunebook.service.api import brief_questions
from tunebook.service.api.settings import Settings
from tunebook.service.app import create_app

# The samples of the cache's tests, and what tests of this folder share.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "cache")]

from running_coordinator import SELDOM_LOOKED_AT  # noqa: E402

BASE_URL = "http://127.0.0.1:8470"

MakeClient = Callable[..., TestClient]


@pytest.fixture(scope="session")
def database_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with our schema and nothing in it: copying it is quicker than making another."""
    path = tmp_path_factory.mktemp("template") / "tunebook.db"
    upgrade(str(path))
    return path


@pytest.fixture
def database(database_template: Path, tmp_path: Path) -> str:
    return str(shutil.copy(database_template, tmp_path))


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    with Store.open(database) as opened:
        yield opened


@pytest.fixture
def make_client(store: Store, tmp_path: Path) -> Iterator[MakeClient]:
    """Makes a client of a running coordinator; `role` gives it a token, keywords settings."""
    with ExitStack() as ends:

        def make(role: Role | None = None, workers: Any = None, **settings: Any) -> TestClient:
            settings = {"models": str(tmp_path / "models"), **SELDOM_LOOKED_AT, **settings}
            app = create_app(Settings(**settings), store, workers=workers)
            headers = {}
            if role is not None:
                secret = store.tokens.create(role.value, role, board=_board(role)).secret
                headers["Authorization"] = f"Bearer {secret}"
            client = TestClient(app, base_url=BASE_URL, headers=headers)
            return ends.enter_context(client)

        yield make


@pytest.fixture
def patient_redis(patient_redis: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests in which Redis is to be there all the time: else it counts as away once a process
    pauses for half a second."""
    monkeypatch.setattr(brief_questions, "_PATIENCE_SECONDS", 60.0)


@pytest.fixture(scope="session")
def problem_of() -> Callable[[Any], str]:
    """The kind of problem, of an answer that has the form of one."""

    def kind(response: Any) -> str:
        assert response.headers["content-type"] == "application/problem+json"
        document = response.json()
        assert document["status"] == response.status_code
        assert {"type", "title", "detail", "instance"} <= set(document)
        assert "\n" not in document["detail"]
        return str(document["type"].removeprefix("/problems/"))

    return kind


def _board(role: Role) -> str:
    return "rpi4/pi-1" if role is Role.BOARD else ""
