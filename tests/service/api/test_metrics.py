"""What Prometheus reads, with labels that stay few."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cache_samples import A76, BOARD, COMPILER, conv, failure, measure, success
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from queue_samples import submit

from tunebook.cache.access.tokens import Role
from tunebook.cache.errors import DatabaseError
from tunebook.cache.queue.fleet import ServedBoard, ServedFleet
from tunebook.cache.statistics.activity import Activity, TrialClass
from tunebook.cache.store import Store
from tunebook.service.api.fleet_metrics import FleetMetrics
from tunebook.service.api.metrics import Metrics

KNOWN, UNKNOWN = conv(56).key, conv(28).key
MakeClient = Callable[..., TestClient]


def samples(text: str, name: str) -> dict[tuple[str, ...], float]:
    """The values of a metric by their labels, in the order of the labels' names."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


def rendered(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    return samples(metrics.render().decode(), name)


def test_a_coordinator_tells_what_it_did(make_client: MakeClient) -> None:
    client = make_client(Role.READ)
    client.head("/api/v1/models/" + "0" * 64)
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    assert samples(response.text, "tunebook_database_seconds_count")[("read",)] > 0
    assert set(samples(response.text, "tunebook_open_rounds")) == {("claimed",), ("free",)}


def test_boards_in_quarantine_and_suspect_records_are_told_by_class(store: Store) -> None:
    store.boards.note_reference(BOARD, "board-1", [1e-3], {})
    metrics = Metrics(store.watch_activity().read, scrape_seconds=0)
    names = ("tunebook_quarantined_boards", "tunebook_suspect_records")
    assert [rendered(metrics, name) for name in names] == [{}, {}]
    for seconds in (1e-3, 1e-3, 1e-3, 1e-3):
        store.boards.note_reference(BOARD, "board-1", [seconds], {})
    measure(store, conv(), {"a": success(1.0), "b": success(2.0)})
    for seconds in (2e-3, 2e-3):
        store.boards.note_reference(BOARD, "board-1", [seconds], {})
    assert [rendered(metrics, name) for name in names] == [{(BOARD,): 1}, {(BOARD,): 2}]
    for seconds in (1e-3, 1e-3):
        store.boards.note_reference(BOARD, "board-1", [seconds], {})
    assert rendered(metrics, names[0]) == {}


def test_what_workers_store_and_pipelines_ask_is_told(
    make_client: MakeClient, store: Store
) -> None:
    client = make_client(Role.READ, pipelines=("vision",))
    measure(store, conv(56), {"a": success(1.0, board_seconds=2.5), "b": failure()})
    asked = [{"op": one.op, "buffers": one.buffers, "hash": one.hash} for one in (KNOWN, UNKNOWN)]
    answer = client.post(
        "/api/v1/lookups",
        json={"target": A76, "compiler": COMPILER, "workloads": asked, "pipeline": "vision"},
    )
    assert answer.json()["counts"] == {"hits": 0, "misses": 2}
    text = client.get("/metrics").text
    assert samples(text, "tunebook_trials_total") == {(BOARD, "measured"): 1, ("", "run"): 1}
    assert samples(text, "tunebook_board_seconds") == {(): 2.5}
    counted = samples(text, "tunebook_lookups_total")
    assert {labels[:2] for labels in counted} == {
        ("unverified", "vision"),
        ("never-tuned", "vision"),
    }


def test_look_ups_are_counted_by_target_pipeline_and_outcome() -> None:
    metrics = Metrics(Activity)
    metrics.count_lookups("llvm a", "vision", "hit", 3)
    metrics.count_lookups("llvm a", "vision", "hit", 2)
    metrics.count_lookups("llvm a", "vision", "never-tuned", 1)
    assert rendered(metrics, "tunebook_lookups_total") == {
        ("hit", "vision", "llvm a"): 5,
        ("never-tuned", "vision", "llvm a"): 1,
    }


@pytest.mark.parametrize("which", ["target", "pipeline"])
def test_texts_from_outside_make_no_endless_labels(which: str) -> None:
    metrics = Metrics(Activity)
    for number in range(1000):
        texts = {"target": "t", "pipeline": "p", which: f"text {number}"}
        metrics.count_lookups(outcome="hit", keys=1, **texts)
    counted = rendered(metrics, "tunebook_lookups_total")
    assert len(counted) == 201
    assert sum(counted.values()) == 1000


def test_trials_and_rounds_add_up_over_what_each_look_tells() -> None:
    looks = iter(
        [
            Activity(trials={TrialClass("pi", "measured"): 5}, round_seconds=(3.0,), free_rounds=2),
            Activity(trials={TrialClass("pi", "measured"): 2, TrialClass("pi", "build"): 1}),
        ]
    )
    metrics = Metrics(lambda: next(looks), scrape_seconds=0)
    assert rendered(metrics, "tunebook_open_rounds")[("free",)] == 2
    assert rendered(metrics, "tunebook_trials_total") == {("pi", "measured"): 7, ("pi", "build"): 1}


def test_the_database_is_asked_no_more_often_than_every_few_seconds() -> None:
    looks = []
    now = [0.0]

    def look() -> Activity:
        looks.append(now[0])
        return Activity()

    metrics = Metrics(look, scrape_seconds=2, monotonic=lambda: now[0])
    for moment in (0.0, 1.0, 1.9, 2.0, 3.0):
        now[0] = moment
        metrics.render()
    assert looks == [0.0, 2.0]


def test_metrics_are_told_while_the_database_does_not_answer() -> None:
    def look() -> Activity:
        raise DatabaseError("the database is away")

    metrics = Metrics(look)
    metrics.count_lookups("t", "p", "hit", 1)
    assert rendered(metrics, "tunebook_lookups_total") == {("hit", "p", "t"): 1}


def told_of_fleet(collector: FleetMetrics) -> dict[str, dict[tuple[str, ...], float]]:
    return {
        sample.name: {tuple(one.labels.values()): one.value for one in family.samples}
        for family in collector.collect()
        for sample in family.samples
    }


def test_workers_and_the_boards_that_they_have_are_told(
    make_client: MakeClient, store: Store
) -> None:
    client = make_client(Role.READ)
    store.fleet.announce("worker", [ServedBoard("rpi5", "board-1", emulated=False, cores=4)])
    submit(store)
    text = client.get("/metrics").text
    assert samples(text, "tunebook_workers") == {(): 1}
    assert samples(text, "tunebook_boards") == {("rpi5",): 1, (BOARD,): 0}


def test_what_is_known_of_workers_stays_while_the_database_does_not_answer() -> None:
    answers = iter([ServedFleet(2, {"rpi4": 3})])

    def read() -> ServedFleet:
        try:
            return next(answers)
        except StopIteration:
            raise DatabaseError("it is away") from None

    collector = FleetMetrics(read)
    expected = {"tunebook_workers": {(): 2}, "tunebook_boards": {("rpi4",): 3}}
    assert told_of_fleet(collector) == expected
    assert told_of_fleet(collector) == expected


def test_classes_that_jobs_name_make_no_endless_labels() -> None:
    collector = FleetMetrics(lambda: ServedFleet(0, {f"class-{one}": 1 for one in range(1000)}))
    boards = told_of_fleet(collector)["tunebook_boards"]
    assert len(boards) < 300
    assert sum(boards.values()) == 1000
