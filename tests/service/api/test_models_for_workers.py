"""Workers on other hosts take models from the coordinator itself."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from running_coordinator import running_coordinator

from tunebook.cache.access.tokens import Role
from tunebook.cache.errors import ModelError, NotFoundError, ServerError, TunebookError
from tunebook.cache.model_files import ModelFiles
from tunebook.cache.remote.client import Client
from tunebook.cache.remote.retries import Retries
from tunebook.cache.store import Store
from tunebook.workers.fleet.model_fetching import fetch_model

# As an ONNX model begins; nobody parses it here.
MODEL = b"\x08\x08\x12\x05tests" + bytes(3 * 2**20)
DIGEST = hashlib.sha256(MODEL).hexdigest()


@pytest.fixture
def url(store: Store, tmp_path: Path) -> Iterator[str]:
    """A coordinator that has the model."""
    models = tmp_path / "models"
    with ModelFiles(str(models)).upload(DIGEST) as upload:
        upload.write(MODEL)
        upload.finish()
    with running_coordinator(store, models=str(models)) as coordinator:
        yield coordinator.url


def client_of(store: Store, url: str, role: Role) -> Client:
    return Client(url, store.tokens.create(role.value, role).secret)


def test_a_worker_has_the_model_as_it_was_uploaded(store: Store, url: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with client_of(store, url, Role.WORKER) as client:
        fetch_model(client, DIGEST, path)
    assert path.read_bytes() == MODEL


def test_a_model_that_is_not_there_is_said_to_be_missing(
    store: Store, url: str, tmp_path: Path
) -> None:
    with client_of(store, url, Role.WORKER) as client, pytest.raises(NotFoundError):
        fetch_model(client, "0" * 64, tmp_path / "model.onnx")


def test_a_model_is_not_for_those_who_may_only_read(store: Store, url: str, tmp_path: Path) -> None:
    with client_of(store, url, Role.READ) as client, pytest.raises(TunebookError) as refused:
        fetch_model(client, DIGEST, tmp_path / "model.onnx")
    assert not isinstance(refused.value, ModelError | NotFoundError)


def test_what_was_changed_where_it_lies_is_not_taken(
    store: Store, url: str, tmp_path: Path
) -> None:
    (stored,) = (path for path in (tmp_path / "models").rglob(DIGEST) if path.is_file())
    stored.write_bytes(MODEL + b"\0")
    with (
        client_of(store, url, Role.WORKER) as client,
        pytest.raises(ModelError, match="is damaged"),
    ):
        fetch_model(client, DIGEST, tmp_path / "model.onnx")


def test_a_coordinator_that_is_gone_is_no_fault_of_the_model(tmp_path: Path) -> None:
    impatient = Retries(patience=0)
    with (
        Client("http://127.0.0.1:9", "token", retries=impatient) as client,
        pytest.raises(ServerError),
    ):
        fetch_model(client, DIGEST, tmp_path / "model.onnx")
