"""One fleet for all faults: it has to outlive each of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

# Tests are imported without a package (--import-mode=importlib); these modules are shared by them.
sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("fault_checks")

from postgresql_server import postgresql_binaries  # noqa: E402
from redis_server import redis_binary  # noqa: E402
from running_fleet import Fleet, running_fleet  # noqa: E402

from tunebook.workers.boards.emulated_sysroot import is_installed  # noqa: E402


@pytest.fixture(scope="module")
def small_model(onnx_models: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two convolutions that take an emulated board no time."""
    folder = tmp_path_factory.mktemp("fleet-model")
    return Path(onnx_models.save(folder / "two_strides.onnx", onnx_models.two_strides()))


@pytest.fixture(scope="module")
def started_fleet(tmp_path_factory: pytest.TempPathFactory, command: list[str]) -> Iterator[Fleet]:
    if postgresql_binaries() is None or redis_binary() is None or not is_installed():
        pytest.skip("a fleet needs PostgreSQL, Redis and the emulated board's user space")
    with running_fleet(tmp_path_factory.mktemp("fleet"), command) as fleet:
        yield fleet


@pytest.fixture
def fleet(started_fleet: Fleet) -> Iterator[Fleet]:
    """The fleet, whole again after each test."""
    yield started_fleet
    started_fleet.mend()
