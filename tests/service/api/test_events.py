"""A job's events as a stream: none is missed, none comes twice, and none holds anything up."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta

import httpx
import pytest
from cache_samples import A76, BOARD
from job_samples import DIGEST
from queue_samples import append_events
from running_coordinator import (
    PATIENCE,
    SELDOM_LOOKED_AT,
    RunningCoordinator,
    received,
    running_coordinator,
)

from tunebook.cache.queue.submissions import BudgetLimits, JobRequest
from tunebook.cache.storage.moments import now
from tunebook.cache.store import Store

QUICK_HEARTBEAT = 0.05


@pytest.fixture
def job(store: Store) -> int:
    request = JobRequest(DIGEST, "", A76, BOARD)
    return store.queue.submit(request, BudgetLimits(trials=1)).job_id


@pytest.fixture
def coordinator(store: Store) -> Iterator[RunningCoordinator]:
    with running_coordinator(store, **SELDOM_LOOKED_AT) as running:
        yield running


def tell(store: Store, job: int, count: int) -> None:
    append_events(store.url, job, count)


def test_a_stream_gives_each_event_in_order_and_ends_after_the_last(
    coordinator: RunningCoordinator, store: Store, job: int
) -> None:
    tell(store, job, 3)
    store.queue.cancel(job)
    with coordinator.client() as client:
        answer = client.get(f"/api/v1/jobs/{job}/events")
    events = list(received(iter(answer.text.splitlines())))
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    assert [event.id for event in events] == [1, 2, 3, 4, 5]
    assert [event.name for event in events] == ["state", "round", "round", "round", "state"]
    assert events[1].document["data"] == {"told": 0}
    assert events[1].document["created_at"].endswith("Z")
    assert events[-1].document["data"]["state"] == "cancelled"


def test_a_client_that_comes_back_misses_no_event_and_sees_none_twice(
    coordinator: RunningCoordinator, store: Store, job: int
) -> None:
    def go_on() -> None:
        tell(store, job, 60)
        store.queue.cancel(job)

    telling = threading.Thread(target=go_on)
    telling.start()
    seen: list[int] = []
    with coordinator.client() as client:
        # Each connection is lost after a few events.
        for lost_after in itertools.cycle((1, 7, 3)):
            headers = {"Last-Event-ID": str(seen[-1])} if seen else {}
            path = f"/api/v1/jobs/{job}/events"
            with client.stream("GET", path, headers=headers) as answer:
                if answer.status_code == 204:
                    break
                events = received(answer.iter_lines())
                seen += [event.id for event in itertools.islice(events, lost_after)]
    telling.join()
    assert seen == list(range(1, 63))


def test_an_event_arrives_while_its_client_waits(
    coordinator: RunningCoordinator, store: Store, job: int
) -> None:
    with (
        coordinator.client() as client,
        client.stream("GET", f"/api/v1/jobs/{job}/events") as answer,
    ):
        events = received(answer.iter_lines())
        assert next(events).id == 1
        tell(store, job, 1)
        assert next(events).document["data"] == {"told": 0}


def test_a_comment_comes_now_and_then_while_nothing_happens(store: Store, job: int) -> None:
    with (
        running_coordinator(store, heartbeat_seconds=QUICK_HEARTBEAT) as running,
        running.client() as client,
        client.stream("GET", f"/api/v1/jobs/{job}/events") as answer,
    ):
        comments = (line for line in answer.iter_lines() if line.startswith(":"))
        assert len(list(itertools.islice(comments, 3))) == 3


def test_a_client_that_has_all_events_of_a_job_that_ended_is_told_so(
    coordinator: RunningCoordinator, store: Store, job: int
) -> None:
    store.queue.cancel(job)
    with coordinator.client() as client:
        answer = client.get(f"/api/v1/jobs/{job}/events", headers={"Last-Event-ID": "2"})
    assert (answer.status_code, answer.content) == (204, b"")


def test_of_a_job_that_ended_long_ago_nothing_is_told(
    coordinator: RunningCoordinator, store: Store, job: int
) -> None:
    store.queue.cancel(job)
    store.queue.tidy(now() + timedelta(days=31))
    with coordinator.client() as client:
        answer = client.get(f"/api/v1/jobs/{job}/events")
    assert (answer.status_code, answer.content) == (204, b"")


@pytest.mark.parametrize(
    ("last", "kind"), [("99", "usage"), ("x", "invalid"), ("-1", "invalid"), ("9" * 12, "invalid")]
)
def test_an_event_that_there_never_was_is_refused(
    coordinator: RunningCoordinator, job: int, last: str, kind: str
) -> None:
    with coordinator.client() as client:
        answer = client.get(f"/api/v1/jobs/{job}/events", headers={"Last-Event-ID": last})
    assert (answer.status_code, answer.json()["type"]) == (422, f"/problems/{kind}")


def test_many_streams_hold_up_nobody_and_all_hear_of_an_event(
    coordinator: RunningCoordinator, store: Store, job: int
) -> None:
    # More than there are threads for requests and connections to the database.
    count = 100
    with ExitStack() as open_streams:
        limits = httpx.Limits(max_connections=None)
        client = open_streams.enter_context(
            httpx.Client(
                base_url=coordinator.url,
                headers=coordinator.headers,
                limits=limits,
                timeout=PATIENCE,
            )
        )
        streams = [
            open_streams.enter_context(client.stream("GET", f"/api/v1/jobs/{job}/events"))
            for _ in range(count)
        ]
        events = [received(stream.iter_lines()) for stream in streams]
        assert {next(one).id for one in events} == {1}
        assert client.get(f"/api/v1/jobs/{job}").status_code == 200
        tell(store, job, 1)
        assert [next(one).id for one in events] == [2] * count


def test_streams_end_when_the_coordinator_stops(
    coordinator: RunningCoordinator, store: Store, job: int
) -> None:
    with (
        coordinator.client() as client,
        client.stream("GET", f"/api/v1/jobs/{job}/events") as answer,
    ):
        events = received(answer.iter_lines())
        assert next(events).id == 1
        coordinator.stop()
        assert list(events) == []


def test_who_may_not_read_hears_nothing(coordinator: RunningCoordinator, job: int) -> None:
    answer = httpx.get(f"{coordinator.url}/api/v1/jobs/{job}/events", timeout=PATIENCE)
    assert (answer.status_code, answer.json()["type"]) == (401, "/problems/unauthorized")
