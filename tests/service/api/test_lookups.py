"""A look-up gives all schedules or says which are missing and why, and no answer outlives it."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from lookup_samples import (
    A53,
    A76,
    LOOKUPS,
    TRACE,
    key_of,
    measure,
    model,
    question,
    serve,
    workload,
)

from tunebook.cache.access.tokens import Role
from tunebook.cache.records import ErrorClass
from tunebook.cache.store import Store

MakeClient = Callable[..., TestClient]
ProblemOf = Callable[[Any], str]
TVM_JSON = {"kind": "llvm", "mtriple": "arm64-linux-gnu", "mcpu": "cortex-a76", "num-cores": 4}


@pytest.fixture
def client(make_client: MakeClient) -> TestClient:
    return make_client(Role.READ)


def remembered(client: TestClient) -> int:
    """Bytes of answers that are kept in memory."""
    size: int = client.app.state.lookups.remembered.size  # type: ignore[attr-defined]
    return size


# --- what is answered ---------------------------------------------------------------------------
def test_all_hits_are_given_with_what_a_build_needs(client: TestClient, store: Store) -> None:
    record = serve(store, workload(56))
    answer = client.post(LOOKUPS, json=question(workload(56)))
    assert answer.status_code == 200
    document = answer.json()
    assert document["hits"] == [
        {
            "key": str(key_of(workload(56))),
            "record_id": record,
            "trace": TRACE,
            "module_hash": "module-0.001",
            "seconds": 1e-3,
            "emulated": False,
            "source": "search",
        }
    ]
    assert document["misses"] == document["passed_over"] == []
    assert document["counts"] == {"hits": 1, "misses": 0}


def test_one_miss_makes_a_problem_of_it_that_holds_the_hits_too(
    client: TestClient, store: Store, problem_of: ProblemOf
) -> None:
    serve(store, workload(56))
    answer = client.post(LOOKUPS, json=question(workload(56), workload(28)))
    assert (answer.status_code, problem_of(answer)) == (409, "schedule-miss")
    document = answer.json()
    assert [one["key"] for one in document["hits"]] == [str(key_of(workload(56)))]
    (miss,) = document["misses"]
    assert (miss["key"], miss["reason"]) == (str(key_of(workload(28))), "other-shape")
    assert miss["nearest"] == str(key_of(workload(56)))
    assert miss["differences"][0] == {"field": "buffers[0][2]", "wanted": 28, "nearest": 56}
    assert miss["mending_command"].startswith("tunebook migrate MODEL")
    assert document["counts"] == {"hits": 1, "misses": 1}


def test_misses_are_reported_with_success_where_asked_for(client: TestClient) -> None:
    answer = client.post(LOOKUPS, json=question(workload(56), on_miss="report"))
    assert answer.status_code == 200
    assert answer.json()["counts"] == {"hits": 0, "misses": 1}


def test_the_answer_that_a_caller_has_is_not_sent_again(client: TestClient, store: Store) -> None:
    serve(store, workload(56))
    digest = client.post(LOOKUPS, json=question(workload(56))).json()["digest"]
    again = question(workload(56), known=digest)
    for _ in range(2):
        assert client.post(LOOKUPS, json=again).json() == {"unchanged": True, "digest": digest}
    faster = serve(store, workload(56), 5e-4)
    changed = client.post(LOOKUPS, json=again).json()
    assert changed["digest"] != digest
    assert changed["hits"][0]["record_id"] == faster


def test_a_miss_that_the_caller_knows_stays_a_problem(
    client: TestClient, problem_of: ProblemOf
) -> None:
    digest = client.post(LOOKUPS, json=question(workload(56))).json()["digest"]
    refused = client.post(LOOKUPS, json=question(workload(56), known=digest))
    assert problem_of(refused) == "schedule-miss"
    assert refused.json()["misses"]
    reported = client.post(LOOKUPS, json=question(workload(56), known=digest, on_miss="report"))
    assert reported.json() == {"unchanged": True, "digest": digest}


@pytest.mark.parametrize(
    "spelling",
    [A76, "llvm -num-cores=4 -mcpu=cortex-a76 -mtriple=arm64-unknown-linux-gnu", TVM_JSON],
    ids=["canonical", "other-order", "json"],
)
def test_a_target_is_understood_in_any_spelling(
    client: TestClient, store: Store, spelling: Any
) -> None:
    serve(store, workload(56))
    assert client.post(LOOKUPS, json=question(workload(56), target=spelling)).status_code == 200


@pytest.mark.parametrize(
    "target", ["", "host", "llvm", "llvm -mtriple=a-b", {}, {"kind": "llvm", "mcpu": "x\u0001"}]
)
def test_a_target_that_is_none_is_a_problem_of_its_own(
    client: TestClient, problem_of: ProblemOf, target: Any
) -> None:
    answer = client.post(LOOKUPS, json=question(workload(56), target=target))
    assert answer.status_code == 422
    assert problem_of(answer) in ("bad-target", "invalid")


def test_emulated_timings_are_served_only_where_they_are_accepted(client: TestClient) -> None:
    asked = question(workload(56), accept_emulated=True, on_miss="report")
    assert client.post(LOOKUPS, json=asked).json()["counts"]["misses"] == 1


# --- by model -----------------------------------------------------------------------------------
def test_a_model_is_looked_up_by_its_digest(client: TestClient, store: Store) -> None:
    serve(store, workload(56))
    store.save_model(model(56, 28))
    asked = {"target": A76, "model": model(56, 28).digest, "on_miss": "report"}
    assert client.post(LOOKUPS, json=asked).json()["counts"] == {"hits": 1, "misses": 1}


def test_a_model_that_was_never_split_is_not_a_miss(
    client: TestClient, store: Store, problem_of: ProblemOf
) -> None:
    store.save_model(model(56))
    answer = client.post(LOOKUPS, json={"target": A53, "model": model(56).digest})
    assert (answer.status_code, problem_of(answer)) == (404, "model-not-split")


def test_a_model_that_was_split_in_two_ways_is_not_a_miss(
    client: TestClient, store: Store, problem_of: ProblemOf
) -> None:
    store.save_model(model(56))
    other = dataclasses.replace(model(28), digest=model(56).digest)
    store.save_model(other)
    asked = {"target": A76, "model": other.digest, "on_miss": "report"}
    answer = client.post(LOOKUPS, json=asked)
    assert (answer.status_code, problem_of(answer)) == (409, "ambiguous-model")
    told = client.post(LOOKUPS, json={**asked, "shapes": {"x": [1, 64, 28, 28]}})
    assert told.json()["misses"][0]["key"] == str(key_of(workload(28)))


# --- what is refused ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    "text", ["{", "[NaN]", "[1e999]", '["\\ud800"]', '["\\u0000"]', "[" * 10_000]
)
@pytest.mark.parametrize("field", ["attributes", "constants"])
def test_a_likeness_that_could_not_be_told_again_is_refused(
    client: TestClient, problem_of: ProblemOf, field: str, text: str
) -> None:
    asked = question(workload(56))
    asked["workloads"][0]["likeness"] = {field: text}
    answer = client.post(LOOKUPS, json=asked)
    assert (answer.status_code, problem_of(answer)) == (422, "invalid")


@pytest.mark.parametrize("field", ["op", "buffers", "hash"])
def test_half_a_character_is_refused(client: TestClient, problem_of: ProblemOf, field: str) -> None:
    asked = question(workload(56))
    asked["workloads"][0][field] = "\ud800"
    answer = client.post(
        LOOKUPS, content=json.dumps(asked), headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, problem_of(answer)) == (422, "invalid")


@pytest.mark.parametrize(
    "change",
    [
        {"workloads": []},
        {"workloads": None},
        {"model": "0" * 64},
        {"compiler": None},
        {"shapes": {"x": [1]}},
        {"on_miss": "warn"},
        {"known": "abc"},
        {"pipeline": "a b"},
        {"pipeline": "x" * 65},
        {"unheard_of": 1},
        {"features": "no hex"},
        {"workloads": [{"op": "a | b", "buffers": "f32[1]", "hash": "0"}]},
        {"workloads": [{"op": "a", "buffers": "f32[1]\u0000", "hash": "0"}]},
    ],
    ids=str,
)
def test_a_question_that_cannot_be_read_is_refused(
    client: TestClient, problem_of: ProblemOf, change: dict[str, Any]
) -> None:
    answer = client.post(LOOKUPS, json={**question(workload(56)), **change})
    assert (answer.status_code, problem_of(answer)) == (422, "invalid")


def test_more_workloads_than_one_look_up_may_ask_for_are_refused(
    client: TestClient, problem_of: ProblemOf
) -> None:
    asked = question(workload(56))
    answer = client.post(LOOKUPS, json={**asked, "workloads": asked["workloads"] * 2001})
    assert (answer.status_code, problem_of(answer)) == (413, "too-large")
    assert answer.json()["limit"] == 2000


def test_a_target_is_as_short_as_json_as_it_is_as_text(
    client: TestClient, problem_of: ProblemOf
) -> None:
    """It is stored with what misses, and stands in the line that says so."""
    target = {
        "kind": "llvm",
        "mtriple": "aarch64-linux-gnu",
        "num-cores": 4,
        "mattr": [f"+feature{number}" for number in range(200)],
    }
    answer = client.post(LOOKUPS, json={**question(workload(56)), "target": target})
    assert (answer.status_code, problem_of(answer)) == (422, "bad-target")
    assert "may have 2000" in answer.json()["detail"]


@pytest.mark.parametrize("role", [None, Role.BOARD])
def test_who_may_not_read_is_not_answered_from_memory_either(
    make_client: MakeClient, store: Store, role: Role | None
) -> None:
    serve(store, workload(56))
    reader = make_client(Role.READ)
    assert reader.post(LOOKUPS, json=question(workload(56))).status_code == 200
    headers = {"Authorization": ""}
    if role is not None:
        secret = store.tokens.create("board", role, board="rpi4/pi-1").secret
        headers = {"Authorization": f"Bearer {secret}"}
    answer = reader.post(LOOKUPS, json=question(workload(56)), headers=headers)
    assert answer.status_code == (401 if role is None else 403)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4)
    ),
    max_leaves=8,
)
_FIELDS = ("target", "compiler", "workloads", "model", "shapes", "features", "known", "pipeline")
_TEXTS = st.text(max_size=40) | st.sampled_from(["f32[1] -> f32[1]", "f32[9999999999999999999]"])
_WORKLOAD = st.fixed_dictionaries({"op": _TEXTS, "buffers": _TEXTS, "hash": st.just("0f")})


@given(
    changes=st.dictionaries(st.sampled_from(_FIELDS), _JSON, max_size=3),
    workloads=st.lists(_WORKLOAD, min_size=1, max_size=3),
)
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_whatever_is_asked_is_answered_or_refused_in_words(
    client: TestClient, problem_of: ProblemOf, changes: dict[str, Any], workloads: Any
) -> None:
    body = json.dumps({**question(), "workloads": workloads, **changes})
    answer = client.post(LOOKUPS, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 404, 409, 413, 422)
    if answer.status_code != 200:
        problem_of(answer)


# --- answers from memory ------------------------------------------------------------------------
def test_the_same_question_is_answered_from_memory(client: TestClient, store: Store) -> None:
    serve(store, workload(56))
    first = client.post(LOOKUPS, json=question(workload(56)))
    size = remembered(client)
    assert size > len(first.content)
    assert client.post(LOOKUPS, json=question(workload(56))).content == first.content
    assert remembered(client) == size


def withdraw(store: Store, record: int) -> None:
    store.mark_failed(record, ErrorClass.WRONG_OUTPUT, "another board disagrees")


def test_a_schedule_that_was_withdrawn_is_served_no_more(client: TestClient, store: Store) -> None:
    record = serve(store, workload(56))
    assert client.post(LOOKUPS, json=question(workload(56))).status_code == 200
    withdraw(store, record)
    answer = client.post(LOOKUPS, json=question(workload(56)))
    assert answer.json()["misses"][0]["reason"] == "only-failures"


def test_what_another_process_withdraws_is_served_no_more(
    client: TestClient, store: Store, database: str
) -> None:
    record = serve(store, workload(56))
    assert client.post(LOOKUPS, json=question(workload(56))).status_code == 200
    with Store.open(database) as other:
        withdraw(other, record)
    assert client.post(LOOKUPS, json=question(workload(56))).status_code == 409


def test_a_record_is_served_only_when_it_is_verified(client: TestClient, store: Store) -> None:
    serve(store, workload(56), 1e-3)
    faster = measure(store, workload(56), 5e-4)
    for _ in range(2):
        (hit,) = client.post(LOOKUPS, json=question(workload(56))).json()["hits"]
        assert hit["record_id"] != faster
    store.mark_verified(faster)
    (hit,) = client.post(LOOKUPS, json=question(workload(56))).json()["hits"]
    assert hit["record_id"] == faster


def test_a_miss_is_explained_by_what_is_stored_now(client: TestClient, store: Store) -> None:
    asked = question(workload(56), on_miss="report")

    def reason() -> str:
        found: str = client.post(LOOKUPS, json=asked).json()["misses"][0]["reason"]
        return found

    assert [reason(), reason()] == ["never-tuned", "never-tuned"]
    measure(store, workload(56), 1e-3)
    assert [reason(), reason()] == ["unverified", "unverified"]


def test_a_model_that_was_split_anew_is_looked_up_by_its_new_keys(
    client: TestClient, store: Store
) -> None:
    for size in (56, 28):
        serve(store, workload(size))
    store.save_model(model(56))
    asked = {"target": A76, "model": model(56).digest}
    assert len(client.post(LOOKUPS, json=asked).json()["hits"]) == 1
    store.save_model(
        model(56).__class__(
            **{**vars(model(56, 28)), "digest": model(56).digest, "shapes": model(56).shapes}
        )
    )
    assert len(client.post(LOOKUPS, json=asked).json()["hits"]) == 2


def test_builds_that_ask_while_records_are_verified_and_withdrawn_see_one_state_each(
    client: TestClient, store: Store
) -> None:
    """Two builds ask while a job runs: what each is served was verified when it was served."""
    records = [serve(store, workload(56), 1e-3 - number * 1e-5) for number in range(5)]

    def ask(_: int) -> tuple[int, ...]:
        answer = client.post(LOOKUPS, json=question(workload(56), on_miss="report")).json()
        return tuple(hit["record_id"] for hit in answer["hits"])

    with ThreadPoolExecutor(2) as builds:
        asked = builds.map(ask, range(60))
        for record in reversed(records[1:]):
            withdraw(store, record)
        seen = list(asked)
    assert {(record,) for record in records} >= set(seen)
    assert ask(0) == (records[0],)
