"""Builds take their schedules from a coordinator as they do from a store."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "service" / "api"))

from database_samples import Fill, Read, apply, functions, scheduled
from running_coordinator import running_coordinator

from tunebook.cache.access.tokens import Role
from tunebook.cache.misses import MissReason, ScheduleMissError
from tunebook.cache.records import Candidate, Model
from tunebook.cache.remote.client import Client
from tunebook.cache.store import Store
from tunebook.cache.targets import Target
from tunebook.tuner import TunebookDatabase
from tunebook.tuner.builds.compile_model import compile_model
from tunebook.tuner.splitting.prepare import PreparedModule, prepare
from tunebook.tuner.splitting.split import split_model


@pytest.fixture
def client(store: Store, tmp_path: Path) -> Iterator[Client]:
    """A client of a coordinator on the store."""
    with running_coordinator(store, role=Role.READ, models=str(tmp_path / "models")) as running:
        secret = running.headers["Authorization"].removeprefix("Bearer ")
        with Client(running.url, secret) as made:
            yield made


def test_every_function_gets_its_schedule(
    network: PreparedModule, tuned: Store, client: Client, host: Target
) -> None:
    result = apply(TunebookDatabase(client, host), network.module)
    assert scheduled(result) == functions(network.module)


def test_what_misses_is_told_as_with_a_store(
    network: PreparedModule, model: Model, store: Store, client: Client, host: Target
) -> None:
    with pytest.raises(ScheduleMissError) as asked:
        apply(TunebookDatabase(client, host, model=model), network.module)
    with pytest.raises(ScheduleMissError) as own:
        apply(TunebookDatabase(store, host, model=model), network.module)
    assert asked.value.misses == own.value.misses
    assert {miss.reason for miss in asked.value.misses} == {MissReason.NEVER_TUNED}


def test_a_model_is_compiled_with_what_a_coordinator_serves(
    read: Read,
    store: Store,
    client: Client,
    host: Target,
    sample: Callable[..., Candidate],
    fill: Fill,
    tmp_path: Path,
) -> None:
    imported = read("convolution")
    split = split_model(prepare(imported, host))
    with pytest.raises(ScheduleMissError):
        compile_model(imported, host, cache=client, output=tmp_path / "refused")
    fill(store, split, [sample(task.workload, host) for task in split.tasks])
    compiled = compile_model(imported, host, cache=client, output=tmp_path / "built")
    assert (compiled.hits, compiled.misses) == (len(split.tasks), ())
    assert not (tmp_path / "refused.so").exists()
