"""Two replicas on PostgreSQL, each behind a real web server, with a Redis that comes and goes."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from cache_samples import A76, BOARD
from job_samples import DIGEST
from lookup_samples import question, serve, workload
from prometheus_client.parser import text_string_to_metric_families
from queue_samples import append_events
from redis_server import RedisServer
from running_coordinator import (
    PATIENCE,
    SELDOM_LOOKED_AT,
    ReceivedEvent,
    RunningCoordinator,
    received,
    running_coordinator,
)

from tunebook.cache.live.live import Live
from tunebook.cache.live.live_counts import (
    FOUND,
    FROM_DATABASE,
    FROM_PROCESS,
    FROM_REDIS,
    MISSING,
)
from tunebook.cache.live.news import News
from tunebook.cache.queue.job_events import ROUND, append_event
from tunebook.cache.queue.submissions import BudgetLimits, JobRequest
from tunebook.cache.store import Store
from tunebook.service.api.settings import Limits

pytestmark = pytest.mark.postgresql

Eventually = Callable[..., None]
SECRET = b"s" * 32
BURST = 10
REDIS_STAYS = pytest.mark.usefixtures("patient_redis")
# So slow that nothing comes back during a test.
LIMITS = Limits(token_rate=0.001, token_burst=BURST)


@dataclass
class Replica:
    """A coordinator with what it shares with the other one."""

    store: Store
    live: Live
    running: RunningCoordinator

    def metric(self, name: str, **labels: str) -> float:
        """One of its metrics."""
        with self.running.client() as client:
            families = text_string_to_metric_families(client.get("/metrics").text)
        samples = (sample for family in families for sample in family.samples)
        (found,) = (one for one in samples if (one.name, one.labels) == (name, labels))
        return float(found.value)


StartReplica = Callable[..., Replica]


@pytest.fixture
def start_replica(
    postgresql_url: str, redis_server: RedisServer, tmp_path: Path, eventually: Eventually
) -> Iterator[StartReplica]:
    with ExitStack() as ends:

        def start(**settings: Any) -> Replica:
            store = ends.enter_context(Store.open(postgresql_url))
            live = ends.enter_context(Live.open(redis_server.url, store.place(), SECRET))
            settings = {"models": str(tmp_path / "models"), **SELDOM_LOOKED_AT, **settings}
            running = running_coordinator(store, live=live, **settings)
            replica = Replica(store, live, ends.enter_context(running))
            eventually(lambda: live.is_up, "Redis is there")
            return replica

        yield start


@pytest.fixture
def replicas(start_replica: StartReplica) -> tuple[Replica, Replica]:
    return start_replica(), start_replica()


@pytest.fixture
def job(replicas: tuple[Replica, Replica]) -> int:
    request = JobRequest(DIGEST, "", A76, BOARD)
    return replicas[0].store.queue.submit(request, BudgetLimits(trials=1)).job_id


def tell(store: Store, job: int, count: int) -> None:
    """So many events of a job, each committed by itself, as the workers of this store would."""
    for number in range(count):
        with store._database.writing() as session:
            append_event(session, job, ROUND, {"told": number})


def hear_until(
    events: Iterator[ReceivedEvent],
    tell_one: Callable[[], object],
    heard: Callable[[], bool],
    eventually: Eventually,
) -> None:
    """Tells of one event after another, of which each comes in its turn, until they were heard of
    in the way that is looked for: the database is looked into as well, and may be quicker."""
    numbers = itertools.count(2)

    def tell_and_look() -> bool:
        tell_one()
        assert next(events).id == next(numbers)
        return heard()

    eventually(tell_and_look, "events were heard of in this way")


# --- events ----------------------------------------------------------------------------------
def test_a_stream_hears_over_redis_what_another_process_did(
    replicas: tuple[Replica, Replica], job: int, eventually: Eventually
) -> None:
    one, other = replicas
    with (
        other.running.client() as client,
        client.stream("GET", f"/api/v1/jobs/{job}/events") as answer,
    ):
        events = received(answer.iter_lines())
        assert next(events).id == 1
        hear_until(
            events,
            lambda: tell(one.store, job, 1),
            lambda: other.live.counts.news.get(FROM_REDIS, 0) >= 5,
            eventually,
        )


def test_a_stream_hears_of_what_its_own_replica_did_without_redis(
    replicas: tuple[Replica, Replica],
    job: int,
    redis_server: RedisServer,
    eventually: Eventually,
) -> None:
    redis_server.kill()
    one, _ = replicas
    with (
        one.running.client() as client,
        client.stream("GET", f"/api/v1/jobs/{job}/events") as answer,
    ):
        events = received(answer.iter_lines())
        assert next(events).id == 1
        hear_until(
            events,
            lambda: tell(one.store, job, 1),
            lambda: one.live.counts.news.get(FROM_PROCESS, 0) >= 5,
            eventually,
        )


@pytest.mark.parametrize("fault", ["killed", "paused"])
def test_each_event_comes_once_and_in_order_while_redis_dies_and_returns(
    replicas: tuple[Replica, Replica], job: int, redis_server: RedisServer, fault: str
) -> None:
    one, other = replicas
    go_on = threading.Semaphore(0)

    def tell_all() -> None:
        for change in (None, "away", None, "back", None):
            go_on.acquire()
            if change == "away":
                redis_server.kill() if fault == "killed" else redis_server.pause()
            elif change == "back":
                redis_server.start() if fault == "killed" else redis_server.resume()
            tell(one.store, job, 10)
        one.store.queue.cancel(job)

    telling = threading.Thread(target=tell_all)
    telling.start()
    seen = []
    with (
        other.running.client() as client,
        client.stream("GET", f"/api/v1/jobs/{job}/events") as answer,
    ):
        for event in received(answer.iter_lines()):
            seen.append(event.id)
            if event.id % 10 == 1:
                go_on.release()
    telling.join()
    assert seen == list(range(1, 53))


def test_what_nobody_tells_of_is_found_in_the_database(
    replicas: tuple[Replica, Replica], job: int, eventually: Eventually
) -> None:
    """As after a worker that was killed between its commit and its telling."""
    _, other = replicas
    with (
        other.running.client() as client,
        client.stream("GET", f"/api/v1/jobs/{job}/events") as answer,
    ):
        events = received(answer.iter_lines())
        assert next(events).id == 1
        # An event that comes before its stream waits is read without any news of it.
        hear_until(
            events,
            lambda: append_events(other.store.url, job, 1),
            lambda: other.live.counts.news.get(FROM_DATABASE, 0) >= 1,
            eventually,
        )


def test_news_of_events_that_there_are_not_make_none(
    replicas: tuple[Replica, Replica], job: int, redis_server: RedisServer
) -> None:
    _, other = replicas
    with (
        other.running.client() as client,
        client.stream("GET", f"/api/v1/jobs/{job}/events") as answer,
    ):
        events = received(answer.iter_lines())
        assert next(events).id == 1
        channel = f"tunebook:{other.store.place()}:news"
        redis_server.ask("PUBLISH", channel, f'{{"from": "x", "events": {{"{job}": 999999}}}}')
        append_events(other.store.url, job, 1)
        assert next(events).id == 2


# --- rates -----------------------------------------------------------------------------------
def ask_in_turn(replicas: tuple[Replica, Replica], count: int) -> list[int]:
    """How replicas answer one token, asked in turn."""
    headers = replicas[0].running.headers
    with ExitStack() as ends:
        clients = [
            ends.enter_context(
                httpx.Client(base_url=one.running.url, headers=headers, timeout=PATIENCE)
            )
            for one in replicas
        ]
        turns = itertools.islice(itertools.cycle(clients), count)
        return [client.get("/api/v1/targets").status_code for client in turns]


def allowed_alone(replicas: tuple[Replica, Replica]) -> int:
    """Requests that replicas have allowed without Redis."""
    counts = [one.live.counts.decisions for one in replicas]
    return sum(one.get((FROM_PROCESS, "allowed"), 0) for one in counts)


@REDIS_STAYS
def test_replicas_let_through_together_what_one_may(start_replica: StartReplica) -> None:
    replicas = start_replica(limits=LIMITS), start_replica(limits=LIMITS)
    assert ask_in_turn(replicas, 3 * BURST) == [200] * BURST + [429] * 2 * BURST
    # Each replica has held the address to its rate too, before it knew the token.
    counts = [one.live.counts.decisions for one in replicas]
    assert sum(one[FROM_REDIS, "allowed"] for one in counts) == BURST + 2


def test_while_redis_hangs_each_replica_counts_for_itself(
    start_replica: StartReplica, redis_server: RedisServer
) -> None:
    replicas = start_replica(limits=LIMITS), start_replica(limits=LIMITS)
    assert ask_in_turn(replicas, 4) == [200] * 4
    # Some already, where Redis did not answer in time.
    before = allowed_alone(replicas)
    redis_server.pause()
    answers = ask_in_turn(replicas, 4 * BURST)
    # What each has let through before counts.
    assert answers.count(200) == 2 * (BURST - 2)
    assert set(answers) == {200, 429}
    assert allowed_alone(replicas) - before == 2 * (BURST - 2)


# --- look-ups --------------------------------------------------------------------------------
def look_up(replica: Replica, asked: dict[str, Any]) -> dict[str, Any]:
    with replica.running.client() as client:
        answer = client.post("/api/v1/lookups", json=asked)
    assert answer.status_code in (200, 409)
    document: dict[str, Any] = answer.json()
    return document


@REDIS_STAYS
def test_what_one_replica_has_answered_the_other_finds_until_something_is_served_anew(
    replicas: tuple[Replica, Replica], eventually: Eventually, redis_server: RedisServer
) -> None:
    one, other = replicas
    serve(one.store, workload(8), 2e-3)
    asked = question(workload(8), pipeline="nightly")
    first = look_up(one, asked)
    eventually(lambda: redis_server.ask("KEYS", "*:answers") != [], "it was put there")
    assert look_up(other, asked) == first
    assert other.live.counts.answers == {FOUND: 1}
    serve(one.store, workload(8), 1e-3)
    faster = look_up(other, asked)
    assert faster["hits"][0]["seconds"] == 1e-3
    assert other.live.counts.answers == {FOUND: 1, MISSING: 1}
    # An answer is counted by who gave it, whoever made it.
    counted = {"target": asked["target"], "pipeline": "nightly", "outcome": "hit"}
    counts = [replica.metric("tunebook_lookups_total", **counted) for replica in replicas]
    assert counts == [1, 2]


def test_an_answer_with_misses_is_shared_with_nobody(
    replicas: tuple[Replica, Replica], redis_server: RedisServer
) -> None:
    one, other = replicas
    asked = question(workload(8))
    assert look_up(one, asked)["misses"]
    serve(one.store, workload(8))
    assert look_up(other, asked)["hits"]
    assert FOUND not in other.live.counts.answers


def test_look_ups_go_on_while_redis_hangs(
    replicas: tuple[Replica, Replica], redis_server: RedisServer
) -> None:
    one, other = replicas
    serve(one.store, workload(8))
    redis_server.pause()
    for size in (8, 9, 10):
        for replica in replicas:
            answer = look_up(replica, question(workload(size), on_miss="report"))
            assert len(answer["hits"]) + len(answer["misses"]) == 1
    assert FOUND not in other.live.counts.answers


# --- what is seen of it ----------------------------------------------------------------------
@REDIS_STAYS
def test_metrics_and_readiness_show_redis_away_and_back(
    replicas: tuple[Replica, Replica], redis_server: RedisServer, eventually: Eventually
) -> None:
    one, _ = replicas
    assert one.metric("tunebook_redis_up") == 1
    redis_server.kill()
    eventually(lambda: not one.live.is_up, "its end is noticed")
    assert one.metric("tunebook_redis_up") == 0
    assert one.metric("tunebook_redis_failures_total", use="connect") >= 1
    answer = httpx.get(f"{one.running.url}/readyz", timeout=PATIENCE)
    assert (answer.status_code, answer.json()["ready"]) == (200, True)
    (part,) = (part for part in answer.json()["parts"] if part["name"] == "redis")
    assert (part["ready"], part["degraded"]) == (True, True)
    assert redis_server.url not in answer.text
    redis_server.start()
    eventually(lambda: one.metric("tunebook_redis_up") == 1, "it is there again")
    (part,) = (
        part
        for part in httpx.get(f"{one.running.url}/readyz", timeout=PATIENCE).json()["parts"]
        if part["name"] == "redis"
    )
    assert (part["degraded"], part["detail"]) == (False, "")


@REDIS_STAYS
def test_the_doorbell_is_counted(
    replicas: tuple[Replica, Replica], job: int, eventually: Eventually
) -> None:
    one, other = replicas
    assert job
    eventually(lambda: other.live.counts.rings != {}, "the submission was heard of")
    assert other.metric("tunebook_doorbell_rings_total", way="heard") >= 1
    eventually(lambda: one.live.counts.rings != {}, "the submission was told")
    assert one.metric("tunebook_doorbell_rings_total", way="sent") >= 1
    # A worker of another process, as far as the replicas can tell.
    never = threading.Event()
    other.live.bell.wait(0, never)
    one.live.tell(News(work=True))
    assert other.live.bell.wait(3600, never)
    eventually(lambda: one.metric("tunebook_doorbell_wakeups_total") >= 1, "the wake-up is counted")
