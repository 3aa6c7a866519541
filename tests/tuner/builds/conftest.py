"""A model whose one task is tuned."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tunebook.cache.records import Candidate
from tunebook.cache.store import Store
from tunebook.cache.targets import Target
from tunebook.tuner.importing.imported_model import ImportedModel
from tunebook.tuner.splitting.prepare import prepare
from tunebook.tuner.splitting.split import split_model


@pytest.fixture
def tuned_convolution(
    read: Callable[..., ImportedModel],
    host: Target,
    store: Store,
    sample: Callable[..., Candidate],
    fill: Callable[..., None],
) -> ImportedModel:
    """A convolution with a relu, for which `store` has a real schedule."""
    imported = read("convolution")
    model = split_model(prepare(imported, host))
    fill(store, model, [sample(model.tasks[0].workload, host)])
    return imported
