"""Random requests: whatever is sent, the coordinator answers as its document says, and never 500.

A few hundred here; TUNEBOOK_RANDOM_REQUESTS=10000 sends so many, other ones each time.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from cache_samples import (
    A53,
    A76,
    COMPILER,
    EVIL_TRACE,
    conv,
    failure,
    measure,
    model_of,
    run_sql,
    serve,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from job_samples import DIGEST, MODEL, announce, split
from running_coordinator import PATIENCE, RunningCoordinator, running_coordinator
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tunebook.cache.access.tokens import Role
from tunebook.cache.boards.board_reports import BoardReport
from tunebook.cache.queue.submissions import BudgetLimits, JobRequest
from tunebook.cache.storage.database import upgrade
from tunebook.cache.store import BoardPeak, Store
from tunebook.service.api.documents.job_models import JobDocument
from tunebook.service.api.settings import Limits

REQUESTS = int(os.environ.get("TUNEBOOK_RANDOM_REQUESTS", "300"))
IS_LONG = "TUNEBOOK_RANDOM_REQUESTS" in os.environ
# Half by the document, half look-ups.
RANDOM = settings(
    max_examples=REQUESTS // 2,
    deadline=None,
    derandomize=not IS_LONG,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
UNLIMITED = Limits(token_rate=1e9, token_burst=10**9, address_rate=1e9, address_burst=10**9)
ENDED_JOB = 2
_AUTHORITY = "Authorization"
WORKLOADS = [conv(56), conv(28, op="conv2d"), conv(14)]


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCoordinator]:
    """A coordinator with something of each kind, at its first few numbers."""
    folder = tmp_path_factory.mktemp("coordinator")
    upgrade(str(folder / "tunebook.db"))
    with (
        Store.open(str(folder / "tunebook.db")) as store,
        running_coordinator(
            store, role=Role.ADMIN, models=str(folder / "models"), limits=UNLIMITED
        ) as running,
    ):
        fill(store, running)
        yield running


def fill(store: Store, running: RunningCoordinator) -> None:
    budget, _ = store.queue.create_budget("night", BudgetLimits(trials=1000))
    for target in (A76, A53):
        store.queue.submit(JobRequest(DIGEST, "", target, "rpi4"), budget)
    store.queue.cancel(ENDED_JOB)
    # Of a trace that is refused no process makes a program to show.
    for workload in WORKLOADS[:2]:
        serve(store, workload)
    measure(store, WORKLOADS[1], {"a": failure()}, target=A53)
    run_sql(store.url, "UPDATE records SET trace = :trace WHERE id <> 1", trace=EVIL_TRACE)
    store.save_board_peak("rpi5", A76, BoardPeak(1e11, 1e10))
    store.boards.report("rpi4", "board-9", BoardReport(mtriple="aarch64-linux-gnu", cores=4))
    announce(store, 4)
    split(store, *WORKLOADS)
    binary = {"Content-Type": "application/octet-stream"}
    with running.client() as client:
        client.put(f"/api/v1/models/{DIGEST}", content=MODEL, headers=binary).raise_for_status()


@pytest.fixture(scope="module")
def document(coordinator: RunningCoordinator) -> dict[str, Any]:
    answer = httpx.get(f"{coordinator.url}/api/v1/openapi.json", timeout=PATIENCE)
    assert answer.status_code == 200
    parsed: dict[str, Any] = answer.json()
    return parsed


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_every_operation_says_what_it_is_for_and_what_it_answers(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        if not name.partition(" ")[2].startswith("/api/"):
            continue
        assert operation["summary"], name
        assert operation["description"], name
        for status, answer in operation["responses"].items():
            assert answer["description"], (name, status)
            problems = answer.get("content", {}).get("application/problem+json")
            assert status[0] not in "45" or problems, (name, status)


def test_every_operation_that_takes_json_has_an_example(document: dict[str, Any]) -> None:
    taken = [
        (name, operation["requestBody"]["content"]["application/json"]["schema"])
        for name, operation in operations(document)
        if "application/json" in operation.get("requestBody", {}).get("content", {})
    ]
    assert len(taken) >= 4
    for name, schema in taken:
        resolved = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        assert resolved.get("examples"), name


def test_the_example_of_a_job_is_one(document: dict[str, Any]) -> None:
    (example,) = document["components"]["schemas"]["JobDocument"]["examples"]
    assert JobDocument.model_validate(example).model_dump(mode="json") == example


def test_the_document_for_people_has_the_same_addresses(document: dict[str, Any]) -> None:
    text = (Path(__file__).parents[3] / "docs" / "api.md").read_text()
    told = set(re.findall(r"^\| `([A-Z]+ /[^`]*)` \|", text, re.MULTILINE))
    assert told == {
        name.replace("/api/v1", "")
        for name, _ in operations(document)
        if name.partition(" ")[2].startswith("/api/v1/")
    }


def with_what_is_there(case: schemathesis.Case) -> None:
    """Puts numbers, digests and targets of what is stored into a request, half of the time: random
    ones are never of anything."""
    for name, value in (case.path_parameters or {}).items():
        if name.endswith("_id") and isinstance(value, int):
            # A stream of a job that has not ended does not end either.
            case.path_parameters[name] = ENDED_JOB if "events" in case.path else value % 6
        elif name == "sha256" and value[:1] in "01234567":
            case.path_parameters[name] = DIGEST
        elif name == "board_class" and len(value) % 2:
            case.path_parameters[name] = "rpi4"
    for part in (case.query, case.body):
        if isinstance(part, dict) and isinstance(part.get("target"), str):
            if len(part["target"]) % 2:
                part["target"] = A76
            if isinstance(part.get("model"), str) and part["model"][:1] in "01234567":
                part["model"] = DIGEST


def test_random_requests_are_answered_as_the_document_says(
    coordinator: RunningCoordinator, document: dict[str, Any]
) -> None:
    schemathesis.serializer("application/x-tar")(lambda _, value: value)
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=coordinator.url)
    found = [result.ok() for result in schema.get_all_operations()]
    # It starts a process for each.
    found = [one for one in found if one.path != "/api/v1/export"]
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    strategies = [one.as_strategy(generation_mode=mode) for one in found for mode in modes]
    answered: Counter[int] = Counter()

    @RANDOM
    @given(st.one_of(strategies))
    def ask(case: schemathesis.Case) -> None:
        with_what_is_there(case)
        sent = {name: value for name, value in (case.headers or {}).items() if name != _AUTHORITY}
        answer = case.call_and_validate(
            headers={**sent, **coordinator.headers}, checks=CHECKS, timeout=PATIENCE
        )
        answered[answer.status_code // 100] += 1

    ask()
    # They went as far as they were to go.
    assert min(answered[2], answered[4]) > REQUESTS // 20


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from([A76, "host", COMPILER, "llvm", "-1", "a|b", "\ud800", "\x00"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


def question(workloads: bool) -> dict[str, Any]:
    """A look-up as pipelines ask it."""
    common = {"target": A76, "compiler": COMPILER, "pipeline": "ci", "accept_emulated": False}
    if not workloads:
        return {**common, "model": model_of(WORKLOADS).digest, "on_miss": "report"}
    asked = [
        {"op": one.key.op, "buffers": one.key.buffers, "hash": one.key.hash} for one in WORKLOADS
    ]
    likeness = {"structure": "0123456789abcdef", "anchor": "", "attributes": "", "constants": ""}
    return {**common, "workloads": [{**asked[0], "likeness": likeness}, *asked[1:]]}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a document."""
    yield path
    members = value.items() if isinstance(value, dict) else ()
    for key, member in members or (enumerate(value) if isinstance(value, list) else ()):
        yield from places(member, (*path, key))


@st.composite
def spoilt_questions(draw: st.DrawFn) -> Any:
    """A look-up of which some parts were replaced, left out or added."""
    body: Any = question(workloads=draw(st.booleans()))
    for _ in range(draw(st.integers(0, 3))):
        *way, last = draw(st.sampled_from([one for one in places(body) if one] or [("x",)]))
        holder = body
        for step in way:
            holder = holder[step]
        if draw(st.booleans()):
            holder[last] = draw(JSON)
        elif isinstance(holder, dict):
            holder.pop(last)
            holder[draw(st.text(max_size=8))] = draw(JSON)
    return body


BODIES = (
    spoilt_questions().map(lambda body: json.dumps(body).encode())
    | JSON.map(lambda body: json.dumps(body).encode())
    | st.binary(max_size=200)
    # Cut short, or with a byte too many.
    | st.integers(1, 200).map(lambda end: json.dumps(question(True)).encode()[:-end])
    | st.integers(1, 2000).map(lambda depth: b"[" * depth + b"]" * depth)
)


def test_random_look_ups_are_answered_and_never_break_anything(
    coordinator: RunningCoordinator,
) -> None:
    kinds: set[str] = set()
    headers = {**coordinator.headers, "Content-Type": "application/json"}
    with httpx.Client(base_url=coordinator.url, headers=headers, timeout=PATIENCE) as client:

        @RANDOM
        @given(BODIES)
        def look_up(body: bytes) -> None:
            answer = client.post("/api/v1/lookups", content=body)
            assert answer.status_code in (200, 400, 404, 409, 422), (body, answer.text)
            if answer.status_code != 200:
                assert answer.headers["Content-Type"] == "application/problem+json"
                kinds.add(answer.json()["type"])
            else:
                kinds.add("answered")

        look_up()
        assert client.get("/readyz").status_code == 200
    # They went as far as they were to go.
    assert {"answered", "/problems/schedule-miss", "/problems/invalid"} <= kinds
