"""Nights at a real coordinator, whose worker is a stand-in for the real one."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tunebook.cache.storage.database import upgrade
from tunebook.cache.store import Store

# The coordinator of the tests of its API, and the samples of those of the cache.
sys.path[:0] = [
    str(Path(__file__).parent),
    str(Path(__file__).parents[1] / "api"),
    str(Path(__file__).parents[2] / "cache"),
]

from real_nights import Nights  # noqa: E402
from running_coordinator import running_coordinator  # noqa: E402


@pytest.fixture(scope="session")
def database_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with our schema and nothing in it: copying it is quicker than making another."""
    path = tmp_path_factory.mktemp("template") / "tunebook.db"
    upgrade(str(path))
    return path


@pytest.fixture
def store(database_template: Path, tmp_path: Path) -> Iterator[Store]:
    path = str(shutil.copy(database_template, tmp_path))
    # A worker is there for as long as its test, also where the machine pauses.
    with Store.open(path, lease_seconds=600) as opened:
        yield opened


@pytest.fixture
def nights(store: Store, tmp_path: Path) -> Iterator[Nights]:
    with running_coordinator(store, models=str(tmp_path / "models")) as coordinator:
        yield Nights(tmp_path, coordinator)
