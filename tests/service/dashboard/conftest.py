"""Coordinators for the tests of pages: one in this process, and one with data of a real run."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from fastapi.testclient import TestClient

# Tests are imported without a package (--import-mode=importlib); this module is shared by them.
sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("real_run", "page_visits")

from page_visits import HOST, sign_in  # noqa: E402
from real_run import Coordinator, reading_token, serving, tune  # noqa: E402

from tunebook.cache.access.tokens import NewToken, Role  # noqa: E402
from tunebook.cache.storage.database import upgrade  # noqa: E402
from tunebook.cache.store import Store  # noqa: E402
from tunebook.service.api.settings import Settings  # noqa: E402
from tunebook.service.app import create_app  # noqa: E402
from tunebook.service.dashboard.target_labels import target_labels  # noqa: E402
from tunebook.tuner.llvm_targets import resolve_target  # noqa: E402

PI = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4"


@pytest.fixture(scope="session")
def coordinator(
    tmp_path_factory: pytest.TempPathFactory, onnx_models: ModuleType
) -> Iterator[Coordinator]:
    """A coordinator whose one model was tuned for this machine, and asked for by two pipelines:
    one hits, the other misses for another target, another shape, and what was never stored."""
    home = tmp_path_factory.mktemp("dashboard")
    database = home / "tunebook.db"
    host = str(resolve_target("host"))
    model = onnx_models.save(home / "model.onnx", onnx_models.scaled_convolution())
    digest = tune(model, host, database)
    with Store.open(str(database)) as store, serving(database, home) as url:
        (split,) = store.answers.splits(digest, host)
        labels = target_labels([host])
        made = Coordinator(
            url, store, host, tuple(split.keys), reading_token(store), (*labels.values(),)
        )
        fill(made)
        yield made
        made.close()


def fill(coordinator: Coordinator) -> None:
    """Real look-ups: hits, and misses for several reasons."""
    keys = coordinator.keys
    coordinator.look_up("release", coordinator.target, keys)
    coordinator.look_up("nightly", coordinator.target, keys)
    coordinator.look_up("nightly", PI, keys)
    larger = [replace(key, buffers=key.buffers.replace("16,16", "32,32")) for key in keys]
    changed = [replace(key, workload_hash="0" * 16) for key in larger]
    coordinator.look_up("nightly", coordinator.target, changed)
    coordinator.wait_until_counted()


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with our schema and nothing in it: copying it is quicker than making another."""
    path = tmp_path_factory.mktemp("empty") / "tunebook.db"
    upgrade(str(path))
    return path


@pytest.fixture
def store(empty: Path, tmp_path: Path) -> Iterator[Store]:
    with Store.open(str(shutil.copy(empty, tmp_path))) as opened:
        yield opened


@pytest.fixture
def client(store: Store, tmp_path: Path) -> Iterator[TestClient]:
    settings = Settings(models=str(tmp_path / "models"))
    with TestClient(
        create_app(settings, store), base_url=f"http://{HOST}", follow_redirects=False
    ) as client:
        yield client


@pytest.fixture
def token(store: Store) -> NewToken:
    return store.tokens.create("lab", Role.READ)


@pytest.fixture
def reader(client: TestClient, token: NewToken) -> TestClient:
    """A client that is signed in."""
    assert sign_in(client, token.secret).status_code == 303
    return client
