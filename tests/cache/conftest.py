"""A SQLite file for each test; what PostgreSQL gives stands in the conftest of all tests."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

# Tests are imported without a package (--import-mode=importlib); these modules are shared by them.
sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite(
    "store_contract",
    "known_workloads_contract",
    "miss_contract",
    "near_contract",
    "origin_contract",
    "round_contract",
    "shared_rounds_contract",
    "lease_contract",
    "import_contract",
    "submission_contract",
    "joining_contract",
    "stage_contract",
    "event_contract",
    "limits_contract",
    "fleet_contract",
    "writers_contract",
)

from tunebook.cache.storage.database import upgrade  # noqa: E402


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with our schema and nothing in it: copying it is quicker than making another."""
    path = tmp_path_factory.mktemp("template") / "tunebook.db"
    upgrade(str(path))
    return path


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    return str(shutil.copy(sqlite_template, tmp_path))
