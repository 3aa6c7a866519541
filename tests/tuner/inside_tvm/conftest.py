"""A model, and stores with schedules for it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from tunebook.cache.records import Candidate, Model
from tunebook.cache.store import Store
from tunebook.cache.targets import Target
from tunebook.tuner.importing.frontend import read_model
from tunebook.tuner.splitting.prepare import PreparedModule, prepare
from tunebook.tuner.splitting.split import split_model

# Tests are imported without a package (--import-mode=importlib); this module is shared by them.
sys.path.insert(0, str(Path(__file__).parent))

from database_samples import UNSCHEDULED, Fill


@pytest.fixture(scope="session")
def network(
    onnx_models: ModuleType, host: Target, tmp_path_factory: pytest.TempPathFactory
) -> PreparedModule:
    """Three tasks: two different convolutions with a relu each, and a pooling."""
    path = tmp_path_factory.mktemp("network") / "network.onnx"
    onnx_models.save(path, onnx_models.convolution_after_others())
    return prepare(read_model(path, None), host)


@pytest.fixture(scope="session")
def model(network: PreparedModule) -> Model:
    return split_model(network)


@pytest.fixture
def tuned(store: Store, model: Model, fill: Fill) -> Store:
    """A store with a schedule for each task, which does nothing: it says what it was measured as,
    and takes no time to find."""
    fill(store, model, [Candidate(UNSCHEDULED, task.workload.key.hash) for task in model.tasks])
    return store
