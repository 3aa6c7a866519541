"""What was looked up is told as hit rates, and what was missed by its causes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

sys.path.insert(0, str(Path(__file__).parent))

from lookup_samples import A53, A76, LOOKUPS, key_of, model, question, serve, workload

from tunebook.cache.access.tokens import Role
from tunebook.cache.store import Store

MakeClient = Callable[..., TestClient]
ProblemOf = Callable[[Any], str]


@pytest.fixture
def client(make_client: MakeClient) -> TestClient:
    return make_client(Role.READ)


def ask(client: TestClient, *sizes: int, times: int = 1, **more: Any) -> None:
    for _ in range(times):
        client.post(LOOKUPS, json=question(*map(workload, sizes), **more))
    client.app.state.lookups.counter.flush()  # type: ignore[attr-defined]


def hit_rate(client: TestClient, **query: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/api/v1/targets/1/hit-rate", params=query).json()
    return found


def misses(client: TestClient, **query: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/api/v1/misses", params=query).json()["items"]
    return found


def test_every_look_up_counts_once_also_those_answered_from_memory_or_as_unchanged(
    client: TestClient, store: Store
) -> None:
    serve(store, workload(56))
    digest = client.post(LOOKUPS, json=question(workload(56))).json()["digest"]
    ask(client, 56, times=3)
    ask(client, 56, times=2, known=digest)
    ask(client, 56, 28, times=2, on_miss="report")
    ask(client, 28, times=2, counted=False)
    found = hit_rate(client)
    assert (found["hits"], found["misses"]) == (8, 2)
    assert found["reasons"] == {"other-shape": 2}
    assert found["rate"] == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("window", "buckets", "seconds"),
    [("now", 12, 300), ("24h", 24, 3600), ("7d", 28, 21600), ("30d", 30, 86400)],
)
def test_a_window_is_told_in_buckets(
    client: TestClient, store: Store, window: str, buckets: int, seconds: int
) -> None:
    serve(store, workload(56))
    ask(client, 56, pipeline="camera")
    found = hit_rate(client, window=window)
    assert (len(found["points"]), found["bucket_seconds"]) == (buckets, seconds)
    # The minute may have ended since.
    assert sum(point["hits"] for point in found["points"][-2:]) == 1
    assert found["points"][0]["start"] == found["start"]
    (camera,) = found["pipelines"]
    assert (camera["pipeline"], camera["hits"], len(camera["points"])) == ("camera", 1, buckets)


def test_one_pipeline_can_be_asked_for(client: TestClient, store: Store) -> None:
    serve(store, workload(56))
    ask(client, 56, pipeline="good")
    ask(client, 28, pipeline="poor")
    found = hit_rate(client, pipeline="poor")
    assert (found["hits"], found["misses"]) == (0, 1)
    assert [one["pipeline"] for one in hit_rate(client)["pipelines"]] == ["poor", "good"]


def test_a_target_tells_how_much_builds_of_its_models_would_find(
    client: TestClient, store: Store
) -> None:
    serve(store, workload(56))
    store.save_model(model(56, 28))
    told = hit_rate(client)["stored_models"]
    assert told == {"keys": 2, "served": 1, "rate": 0.5}


def test_a_target_of_an_unknown_number_is_not_found(
    client: TestClient, problem_of: ProblemOf
) -> None:
    answer = client.get("/api/v1/targets/7/hit-rate")
    assert (answer.status_code, problem_of(answer)) == (404, "not-found")


def test_misses_are_told_by_cause_with_the_nearest_key_and_what_mends_them(
    client: TestClient, store: Store
) -> None:
    serve(store, workload(56))
    ask(client, 28, times=2, pipeline="camera")
    ask(client, 56, target=A53)
    elsewhere, shape = misses(client)
    assert (elsewhere["reason"], elsewhere["target"]) == ("other-target", A53)
    assert shape["cause"] == (
        "other-shape (axis 2: wanted 28, stored 56; axis 3: wanted 28, stored 56)"
    )
    assert (shape["count"], shape["keys"], shape["target"]) == (2, 1, A76)
    assert shape["mending_command"] == f"tunebook migrate MODEL --target '{A76}'"
    (missed,) = shape["misses"]
    assert missed["key"] == str(key_of(workload(28)))
    assert missed["nearest"] == str(key_of(workload(56)))
    assert missed["differences"][0] == {"field": "buffers[0][2]", "wanted": 28, "nearest": 56}
    assert (missed["pipeline"], missed["count"]) == ("camera", 2)
    assert missed["first_at"] <= missed["last_at"]
    assert missed["last_at"].endswith("Z")


def test_a_miss_that_was_mended_is_left_out(client: TestClient, store: Store) -> None:
    ask(client, 56)
    assert len(misses(client)) == 1
    serve(store, workload(56))
    assert misses(client) == []
    (group,) = misses(client, mended=True)
    assert group["misses"][0]["mended"]


@pytest.mark.parametrize(
    "query",
    [
        {"target": A53},
        {"target": A53.replace("aarch64-linux-gnu", "arm64-unknown-linux-gnu")},
        {"pipeline": "camera"},
        {"reason": "other-target"},
    ],
    ids=str,
)
def test_misses_are_found_by_what_they_have(
    client: TestClient, store: Store, query: dict[str, str]
) -> None:
    serve(store, workload(56))
    ask(client, 28)
    ask(client, 56, target=A53, pipeline="camera")
    (found,) = misses(client, **query)
    assert found["target"] == A53


def test_causes_are_told_a_page_at_a_time(client: TestClient, store: Store) -> None:
    serve(store, workload(56))
    for target in (A76, A53):
        ask(client, 28, target=target)
    first = client.get("/api/v1/misses", params={"limit": 1}).json()
    second = client.get("/api/v1/misses", params={"limit": 1, "cursor": first["next"]}).json()
    assert [page["items"][0]["target"] for page in (first, second)] == [A53, A76]
    assert second["next"] is None


@pytest.mark.parametrize("query", [{"since": "yesterday"}, {"cursor": "x"}, {"reason": "bad luck"}])
def test_a_list_that_cannot_be_given_is_refused(
    client: TestClient, problem_of: ProblemOf, query: dict[str, str]
) -> None:
    answer = client.get("/api/v1/misses", params=query)
    assert answer.status_code == 422
    assert problem_of(answer) in ("invalid", "usage")


def test_prometheus_is_told_of_look_ups(client: TestClient, store: Store) -> None:
    serve(store, workload(56))
    ask(client, 56, times=2, pipeline="camera")
    labels = f'outcome="hit",pipeline="camera",target="{A76}"'
    assert f"tunebook_lookups_total{{{labels}}} 2.0" in client.get("/metrics").text
