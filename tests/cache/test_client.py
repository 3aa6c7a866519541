"""The client answers as the store behind the coordinator does."""

from __future__ import annotations

import dataclasses
import hashlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import onnx
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "service" / "api"))

from cache_samples import A53, A76, A76_PLAIN, COMPILER, conv, model_of, serve
from running_coordinator import RunningCoordinator, running_coordinator

from tunebook.cache import connect
from tunebook.cache.access.tokens import Role
from tunebook.cache.errors import (
    AmbiguousModelError,
    DatabaseError,
    ExitCode,
    ModelError,
    ModelNotSplitError,
    ServerError,
    TargetError,
    UsageError,
)
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.likeness import Likeness, LookupHints
from tunebook.cache.misses import MissReason
from tunebook.cache.records import ErrorClass
from tunebook.cache.remote.client import Client
from tunebook.cache.statistics.lookup_counts import Window
from tunebook.cache.storage.moments import now
from tunebook.cache.store import Store


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, RunningCoordinator]]:
    """A coordinator with some schedules, and its store."""
    folder = tmp_path_factory.mktemp("coordinator")
    with Store.open(str(folder / "tunebook.db")) as store:
        serve(store, conv(56))
        serve(store, conv(28), target=A53)
        serve(store, conv(14), emulated=True)
        store.save_model(dataclasses.replace(MODEL, target_features="00ff00ff00ff00ff"))
        with running_coordinator(store, models=str(folder / "models")) as coordinator:
            yield store, coordinator


MODEL = model_of([conv(56), conv(28), conv(14)])


@pytest.fixture
def store(served: tuple[Store, RunningCoordinator]) -> Store:
    return served[0]


@pytest.fixture
def client(served: tuple[Store, RunningCoordinator]) -> Iterator[Client]:
    _, coordinator = served
    with Client(coordinator.url, token_of(coordinator)) as made:
        yield made


def token_of(coordinator: RunningCoordinator) -> str:
    return coordinator.headers["Authorization"].removeprefix("Bearer ")


# --- the same answers as a store's --------------------------------------------------------------
KEYS = [one.key.on(target) for one in (conv(56), conv(28), conv(14)) for target in (A76, A53)]
NEVER_STORED = dataclasses.replace(conv(56).key, hash="0" * 16)
HINTS = LookupHints(
    {NEVER_STORED: Likeness("1" * 16, "2" * 16, '{"a": 1}', "[0.5]")}, {A76_PLAIN: "0" * 16}
)


@pytest.mark.parametrize(
    ("keys", "accept_emulated", "hints"),
    [
        (KEYS, False, LookupHints()),
        (KEYS, True, LookupHints()),
        (KEYS[:1] * 2, False, LookupHints()),
        ([NEVER_STORED.on(A76_PLAIN), KEYS[0]], False, HINTS),
        ([dataclasses.replace(KEYS[0], compiler="tvm-0.28.0+llvm-23")], False, LookupHints()),
        ([], False, LookupHints()),
    ],
    ids=["all", "emulated", "twice", "hints", "other-compiler", "none"],
)
def test_a_look_up_is_answered_as_the_store_does(
    client: Client,
    store: Store,
    keys: list[ScheduleKey],
    accept_emulated: bool,
    hints: LookupHints,
) -> None:
    asked = client.lookup(keys, accept_emulated=accept_emulated, hints=hints)
    own = store.lookup(keys, accept_emulated=accept_emulated, hints=hints)
    assert list(asked.hits.items()) == list(own.hits.items())
    assert asked.misses == own.misses
    explained = client.explain(keys, accept_emulated=accept_emulated, hints=hints)
    assert explained == own.misses


def test_more_keys_than_one_request_takes_are_asked_for_in_several(client: Client) -> None:
    keys = [dataclasses.replace(KEYS[0], workload_hash=f"{n:016x}") for n in range(1100)]
    answer = client.lookup([*keys, KEYS[0]])
    assert list(answer.hits) == [KEYS[0]]
    assert [miss.key for miss in answer.misses] == keys


def test_a_model_is_looked_up_by_its_digest(client: Client, store: Store) -> None:
    answer = client.lookup_model(MODEL.digest, A76, shapes={"input": (1, 64, 56, 56)})
    assert answer == store.lookup(MODEL.keys, hints=MODEL.hints)


def test_a_model_is_found_with_the_choices_that_it_was_tuned_with(
    client: Client, store: Store
) -> None:
    place = (MODEL.digest, MODEL.shapes, A76, COMPILER)
    found, stored = client.find_model(*place), store.find_model(*place)
    assert found is not None
    assert stored is not None
    tasks = tuple(
        dataclasses.replace(task, workload=dataclasses.replace(task.workload, tir=""))
        for task in stored.tasks
    )
    assert found == dataclasses.replace(stored, tasks=tasks)


@pytest.mark.parametrize(
    "place",
    [
        ("0" * 64, MODEL.shapes, A76, COMPILER),
        (MODEL.digest, "input=1", A76, COMPILER),
        (MODEL.digest, MODEL.shapes, A53, COMPILER),
        (MODEL.digest, MODEL.shapes, A76, "tvm-0.28.0+llvm-23"),
    ],
)
def test_a_model_that_was_never_split_so_is_not_found(
    client: Client, place: tuple[str, str, str, str]
) -> None:
    assert client.find_model(*place) is None


def test_keys_of_a_program_are_found_without_its_operators(client: Client, store: Store) -> None:
    key = conv(56).key
    assert client.find_workloads(key.hash, key.buffers, COMPILER) == (key,)
    assert client.find_workloads("0" * 16, key.buffers, COMPILER) == ()


def test_models_that_hold_workloads_are_found(client: Client, store: Store) -> None:
    asked = [conv(28).key, conv(14).key]
    assert client.models_holding(asked, A76) == store.models_holding(asked, A76) != ()
    assert client.models_holding([], A76) == ()


def test_look_ups_are_counted_under_the_name_of_the_pipeline(
    served: tuple[Store, RunningCoordinator], eventually: Callable[..., None]
) -> None:
    store, coordinator = served
    environment = {"TUNEBOOK_TOKEN": token_of(coordinator), "TUNEBOOK_PIPELINE": "camera"}
    with Client(coordinator.url, environment=environment) as client:
        client.explain(KEYS[1:])
        client.lookup(KEYS[:1])
    eventually(lambda: "camera" in store.statistics.pipelines(10), "the look-up is counted")
    counted = store.statistics.hit_rate(A76, Window.NOW, now(), "camera")
    assert (counted.series.total.hits, counted.series.total.misses) == (1, 0)


# --- what a coordinator refuses -----------------------------------------------------------------
@pytest.mark.parametrize(
    ("digest", "target", "error"),
    [
        (MODEL.digest, A53, ModelNotSplitError),
        ("0" * 64, A76, ModelNotSplitError),
        (MODEL.digest, "llvm", TargetError),
        ("no digest", A76, ServerError),
    ],
)
def test_a_refusal_is_the_error_that_it_would_be_here(
    client: Client, digest: str, target: str, error: type[Exception]
) -> None:
    with pytest.raises(error) as raised:
        client.lookup_model(digest, target)
    assert "\n" not in str(raised.value)


def test_what_is_no_miss_has_an_exit_code_of_its_own(client: Client, store: Store) -> None:
    store.save_model(dataclasses.replace(model_of([conv(7)]), shapes="a=1"))
    store.save_model(dataclasses.replace(model_of([conv(7)]), shapes="a=2"))
    with pytest.raises(AmbiguousModelError) as raised:
        client.lookup_model(model_of([conv(7)]).digest, A76)
    assert raised.value.exit_code is ExitCode.SERVER


@pytest.mark.parametrize("secret", ["", "tbk_wrong"])
def test_without_a_good_token_it_says_where_to_give_one(
    served: tuple[Store, RunningCoordinator], secret: str
) -> None:
    _, coordinator = served
    with (
        Client(coordinator.url, secret, environment={}) as client,
        pytest.raises(ServerError, match="TUNEBOOK_TOKEN") as raised,
    ):
        client.lookup(KEYS)
    assert raised.value.exit_code is ExitCode.SERVER


def test_a_model_is_uploaded_once(served: tuple[Store, RunningCoordinator], tmp_path: Path) -> None:
    store, coordinator = served
    path = tmp_path / "model.onnx"
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    ends = [onnx.helper.make_tensor_value_info(name, 1, [2, 8]) for name in ("x", "y")]
    graph = onnx.helper.make_graph([node], "net", ends[:1], ends[1:])
    onnx.save(onnx.helper.make_model(graph), str(path))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    secret = store.tokens.create("submits", Role.SUBMIT).secret
    with Client(coordinator.url, secret) as client:
        client.upload_model(digest, path)
        path.unlink()
        # It is there, so the file is not even opened.
        client.upload_model(digest, path)
        with pytest.raises(ModelError, match="cannot be read"):
            client.upload_model("0" * 64, path)


# --- connecting ---------------------------------------------------------------------------------
def test_a_cache_is_opened_by_address_or_by_path(
    served: tuple[Store, RunningCoordinator], sqlite_url: str
) -> None:
    _, coordinator = served
    with Store.open(sqlite_url) as store:
        serve(store, conv(56))
    for place in (coordinator.url, f"{coordinator.url}/", f"{coordinator.url}/api/v1", sqlite_url):
        with connect(place, token_of(coordinator)) as cache:
            assert list(cache.lookup(KEYS[:1]).hits) == KEYS[:1]


def test_a_path_where_nothing_is_makes_no_database(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="there is no database"):
        connect(str(tmp_path / "none.db"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url", ["ftp://host", "http://", "https://host:0", "http://host:x", "http://u:p@host", "host"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="is no address of a coordinator"):
        Client(url)


def test_asking_a_coordinator_loads_no_database_and_no_tvm(
    served: tuple[Store, RunningCoordinator],
) -> None:
    _, coordinator = served
    program = (
        "import sys\n"
        "from tunebook.cache import connect\n"
        f"answer = connect({coordinator.url!r}, {token_of(coordinator)!r})"
        f".lookup_model({MODEL.digest!r}, {A76!r})\n"
        "assert answer.hits\n"
        "print(sorted({'tvm', 'sqlalchemy', 'fastapi', 'numpy'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_misses_tell_their_reasons(client: Client) -> None:
    reasons = [miss.reason for miss in client.lookup(KEYS).misses]
    assert MissReason.EMULATED_ONLY in reasons
    assert MissReason.OTHER_TARGET in reasons


@pytest.mark.postgresql
def test_a_coordinator_on_a_server_serves_nothing_that_another_process_withdrew(
    postgresql_url: str, tmp_path: Path
) -> None:
    with (
        Store.open(postgresql_url) as store,
        Store.open(postgresql_url) as other,
        running_coordinator(store, models=str(tmp_path)) as coordinator,
        Client(coordinator.url, token_of(coordinator)) as client,
    ):
        key = serve(other, conv(56))
        for _ in range(2):
            (hit,) = client.lookup([key]).hits.values()
        other.mark_failed(hit.record_id, ErrorClass.WRONG_OUTPUT, "it differs")
        for _ in range(2):
            (miss,) = client.lookup([key]).misses
        assert miss.reason is MissReason.ONLY_FAILURES
        serve(other, conv(56), seconds=2e-3)
        assert list(client.lookup([key]).hits) == [key]
