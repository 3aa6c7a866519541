"""Jobs over HTTP: submitted once however often a client retries, listed, read and cancelled."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cache_samples import A53, A76, BOARD, candidates, conv, failure, propose_all, run_sql, success
from fastapi.testclient import TestClient
from job_samples import DIGEST, announce, split, submission, submit, upload

from tunebook.cache.access.tokens import Role
from tunebook.cache.queue.submissions import BudgetLimits, Idempotency
from tunebook.cache.store import Store

NO_CORES = A76.replace(" -num-cores=4", "")
FUTURE, PAST = "2199-01-02T06:00:00+02:00", "2026-01-02T06:00:00Z"


@pytest.fixture
def client(make_client: Callable[..., TestClient]) -> TestClient:
    made = make_client(Role.SUBMIT)
    upload(made)
    return made


class TestSubmitting:
    def test_a_job_is_made_and_answered_with_its_address(self, client: TestClient) -> None:
        answer = client.post("/api/v1/jobs", json=submission(name="mine", priority=2))
        job = answer.json()
        assert answer.status_code == 201
        assert answer.headers["Location"] == f"/api/v1/jobs/{job['id']}"
        assert client.get(answer.headers["Location"]).json() == job
        assert (job["name"], job["priority"], job["model"]) == ("mine", 2.0, DIGEST)
        assert (job["target"], job["board_class"], job["layout"]) == (A76, BOARD, "NCHW")
        assert (job["tasks"], job["log"], job["finished_at"]) == ([], "", None)
        assert job["budget"]["trials"] == {"limit": 100, "spent": 0, "in_flight": 0, "left": 100}
        assert job["created_at"].endswith("Z")

    def test_a_job_on_a_class_that_nobody_serves_waits_and_says_so(
        self, client: TestClient, store: Store
    ) -> None:
        job = submit(client)
        assert (job["state"], job["waiting_for"]) == ("waiting", BOARD)
        assert BOARD in job["reason"]
        announce(store, 4)
        again = client.get(f"/api/v1/jobs/{job['id']}").json()
        assert (again["state"], again["waiting_for"], again["reason"]) == ("queued", "", "")

    def test_shapes_layout_and_every_limit_are_kept(self, client: TestClient) -> None:
        budget = {"trials": 5, "seconds": 60, "board_seconds": 30.5, "deadline": FUTURE}
        shapes = {"input": [1, 3, 224, 224], "a": [2], "b=1,2": [3], "é/…:0": [4]}
        job = submit(client, budget=budget, shapes=shapes, layout="NHWC")
        assert (job["shapes"], job["layout"]) == (shapes, "NHWC")
        assert job["budget"]["seconds"] == {"limit": 60.0, "used": 0.0, "left": 60.0}
        assert job["budget"]["board_seconds"]["limit"] == 30.5
        assert job["budget"]["deadline"] == "2199-01-02T04:00:00Z"

    def test_jobs_share_a_budget_that_was_made_for_them(self, client: TestClient) -> None:
        made = client.post("/api/v1/budgets", json={"name": "night", "trials": 50})
        number = made.json()["id"]
        assert made.status_code == 201
        assert made.headers["Location"] == f"/api/v1/budgets/{number}"
        jobs = [submit(client, budget=None, budget_id=number, target=t) for t in (A76, A53)]
        assert {job["budget"]["id"] for job in jobs} == {number}
        listed = client.get("/api/v1/budgets", params={"name": "night"}).json()
        assert [one["id"] for one in listed["items"]] == [number]
        assert client.get("/api/v1/budgets?name=day").json() == {"items": [], "next": None}

    def test_missing_cores_are_those_of_the_boards_of_the_class(
        self, client: TestClient, store: Store
    ) -> None:
        announce(store, 4, 4)
        assert submit(client, target=NO_CORES)["target"] == A76

    @pytest.mark.parametrize(
        ("cores", "said"),
        [
            ((), f"the board class {BOARD} has none to supply"),
            ((4, 2), "the boards of class rpi4 have 2 or 4"),
        ],
    )
    def test_missing_cores_that_nobody_knows_are_asked_for(
        self, client: TestClient, store: Store, cores: tuple[int, ...], said: str
    ) -> None:
        announce(store, *cores)
        answer = client.post("/api/v1/jobs", json=submission(target=NO_CORES))
        assert (answer.status_code, answer.json()["type"]) == (422, "/problems/bad-target")
        assert said in answer.json()["detail"]
        assert "-num-cores=" in answer.json()["detail"]

    @pytest.mark.parametrize(
        ("changed", "status", "kind", "said"),
        [
            ({"model": "0" * 64}, 422, "bad-model", f"PUT /api/v1/models/{'0' * 64}"),
            ({"target": "host"}, 422, "bad-target", "`tunebook target host`"),
            ({"target": "cuda"}, 422, "bad-target", "Tunebook tunes for CPUs"),
            ({"target": "llvm -num-cores=4"}, 422, "bad-target", "no -mtriple"),
            ({"budget": {"trials": 1, "deadline": PAST}}, 422, "budget", "is past"),
            ({"budget": {"deadline": "2199-01-01T00:00:00"}}, 422, "invalid", "no offset from UTC"),
            ({"budget": {"deadline": 4e9}}, 422, "invalid", "a text of ISO 8601"),
            ({"budget": {"deadline": "9999-12-31T23:59:59-12:00"}}, 422, "invalid", "out of range"),
            ({"budget": {}}, 422, "invalid", "it limits nothing"),
            ({"budget": {"trials": 0}}, 422, "invalid", "body.budget.trials"),
            ({"budget": {"seconds": -1}}, 422, "invalid", "body.budget.seconds"),
            ({"budget": None}, 422, "invalid", "give either budget or budget_id"),
            ({"budget_id": 1}, 422, "invalid", "give either budget or budget_id"),
            ({"budget": None, "budget_id": 7}, 404, "not-found", "no shared budget 7"),
            ({"shapes": {"input": []}}, 422, "invalid", "body.shapes.input"),
            ({"shapes": {"input": [0]}}, 422, "invalid", "body.shapes.input.0"),
            ({"shapes": {"an input": [1]}}, 422, "invalid", "body.shapes.an input"),
            ({"shapes": {"an\u00a0input": [1]}}, 422, "invalid", "should match pattern"),
            ({"shapes": {"an\u3000input": [1]}}, 422, "invalid", "should match pattern"),
            ({"shapes": {"an\u0085input": [1]}}, 422, "invalid", "should match pattern"),
            ({"priority": 0}, 422, "invalid", "body.priority"),
            ({"layout": "CHWN"}, 422, "invalid", "body.layout"),
            ({"name": "two\nlines"}, 422, "invalid", "body.name"),
            ({"board_class": "../etc"}, 422, "invalid", "body.board_class"),
            ({"board_class": "rpi5.quarantined"}, 422, "invalid", "body.board_class"),
            ({"trials": 100}, 422, "invalid", "body.trials"),
        ],
    )
    def test_what_cannot_be_a_job_is_refused_with_the_reason(
        self, client: TestClient, changed: dict[str, Any], status: int, kind: str, said: str
    ) -> None:
        answer = client.post("/api/v1/jobs", json=submission(**changed))
        assert (answer.status_code, answer.json()["type"]) == (status, f"/problems/{kind}")
        assert said in answer.json()["detail"]
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert client.get("/api/v1/jobs").json()["items"] == []

    @pytest.mark.parametrize("role", [Role.READ, Role.WORKER, Role.BOARD])
    def test_who_may_not_submit_is_refused(
        self, make_client: Callable[..., TestClient], role: Role
    ) -> None:
        client = make_client(role)
        for answer in (
            client.post("/api/v1/jobs", json=submission()),
            client.post("/api/v1/budgets", json={"name": "night", "trials": 1}),
            client.delete("/api/v1/jobs/1"),
        ):
            assert (answer.status_code, answer.json()["type"]) == (403, "/problems/forbidden")


class TestRetrying:
    def test_a_retry_with_the_same_key_is_answered_with_the_same_job(
        self, client: TestClient
    ) -> None:
        headers = {"Idempotency-Key": "night-2026-11-30/resnet"}
        first = client.post("/api/v1/jobs", json=submission(), headers=headers)
        # The same, spelt otherwise.
        spelt = submission(priority=1, shapes={}, target=A76)
        second = client.post("/api/v1/jobs", json=spelt, headers=headers)
        assert (first.status_code, second.status_code) == (201, 200)
        assert second.json() == first.json()
        assert second.headers["Location"] == first.headers["Location"]

    def test_a_retry_is_answered_though_what_let_the_first_one_through_is_gone(
        self, client: TestClient, store: Store, tmp_path: Path
    ) -> None:
        headers = {"Idempotency-Key": "one"}
        announce(store, 4)
        body = submission(target=NO_CORES)
        first = client.post("/api/v1/jobs", json=body, headers=headers)
        store.fleet.leave("worker-1")
        shutil.rmtree(tmp_path / "models")
        second = client.post("/api/v1/jobs", json=body, headers=headers)
        assert (first.status_code, second.status_code) == (201, 200)
        assert second.json()["id"] == first.json()["id"]

    def test_many_retries_at_once_make_one_job(self, client: TestClient) -> None:
        def post(_: int) -> tuple[int, int]:
            headers = {"Idempotency-Key": "one"}
            answer = client.post("/api/v1/jobs", json=submission(), headers=headers)
            return answer.status_code, answer.json()["id"]

        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(post, range(16)))
        assert sorted(status for status, _ in answers) == [200] * 15 + [201]
        assert len({job for _, job in answers}) == 1
        assert len(client.get("/api/v1/jobs").json()["items"]) == 1

    def test_a_budget_is_made_once_by_a_client_that_retries(self, client: TestClient) -> None:
        headers = {"Idempotency-Key": "one"}
        body = {"name": "night", "trials": 50}
        first, second = (
            client.post("/api/v1/budgets", json=body, headers=headers) for _ in range(2)
        )
        assert (first.status_code, second.status_code) == (201, 200)
        assert first.json() == second.json()

    @pytest.mark.parametrize(
        ("path", "body"),
        [
            ("jobs", submission(budget={"trials": 101})),
            ("jobs", submission(name="another")),
            ("budgets", {"name": "night", "trials": 100}),
        ],
    )
    def test_the_same_key_with_another_body_is_refused(
        self, client: TestClient, path: str, body: dict[str, Any]
    ) -> None:
        headers = {"Idempotency-Key": "one"}
        client.post("/api/v1/jobs", json=submission(), headers=headers)
        answer = client.post(f"/api/v1/{path}", json=body, headers=headers)
        assert answer.status_code == 422
        assert answer.json()["type"] == "/problems/idempotency-key-reused"

    def test_the_keys_of_two_tokens_have_nothing_to_do_with_each_other(
        self, client: TestClient, make_client: Callable[..., TestClient]
    ) -> None:
        headers = {"Idempotency-Key": "one"}
        first = client.post("/api/v1/jobs", json=submission(), headers=headers)
        other = make_client(Role.SUBMIT).post(
            "/api/v1/jobs", json=submission(name="mine"), headers=headers
        )
        assert (first.status_code, other.status_code) == (201, 201)
        assert first.json()["id"] != other.json()["id"]

    @pytest.mark.parametrize("key", ["", "with space", "x" * 256, "ümlaut"])
    def test_a_key_is_some_printable_characters(self, client: TestClient, key: str) -> None:
        headers = {"Idempotency-Key": key.encode("latin-1")}
        answer = client.post("/api/v1/jobs", json=submission(), headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (422, "/problems/invalid")
        assert "Idempotency-Key" in answer.json()["detail"]


class TestReading:
    def test_a_job_tells_what_each_task_has_and_what_the_next_trial_may_bring(
        self, client: TestClient, store: Store
    ) -> None:
        announce(store, 4)
        job = submit(client)["id"]
        workloads = [conv(56), conv(28)]
        split(store, *workloads)
        first, second = store.task_states(job)
        for task in (first, second):
            store.set_untuned_seconds(task.id, 8e-3)
        propose_all(store, job, 4)
        claimed = store.claim_round("worker-1", job)
        assert claimed is not None
        slots = store.store_candidates(claimed.id, claimed.epoch, candidates("a", "b", "c"))
        results = [success(2e-3, board_seconds=1.5), success(1e-3), failure()]
        for slot, measured in zip(slots, results, strict=True):
            stored = store.store_result(claimed.id, claimed.epoch, slot.number, measured)
            if slot.number == slots[0].number:
                store.mark_verified(stored.record_id)

        document = client.get(f"/api/v1/jobs/{job}").json()
        tuned, untuned = document["tasks"]
        assert tuned["key"] == str(workloads[0].key.on(A76))
        assert (tuned["trials"], tuned["weight"], tuned["failures"]) == (3, 1, {"run": 1})
        assert (tuned["untuned_seconds"], tuned["best_seconds"]) == (8e-3, 1e-3)
        assert tuned["served_seconds"] == 2e-3
        assert 0 < tuned["gain_per_trial"] < untuned["gain_per_trial"]
        assert (untuned["trials"], untuned["best_seconds"]) == (0, None)
        assert document["latency"] == {"untuned": 16e-3, "best": None, "served": None}
        trials = document["budget"]["trials"]
        assert trials == {"limit": 100, "spent": 3, "in_flight": 1, "left": 96}
        assert document["budget"]["board_seconds"] == {"limit": None, "used": 1.5, "left": None}

    def test_a_task_that_is_exhausted_brings_nothing(
        self, client: TestClient, store: Store
    ) -> None:
        announce(store, 4)
        job = submit(client)["id"]
        split(store)
        (task,) = store.task_states(job)
        store.set_untuned_seconds(task.id, 8e-3)
        store.set_exhausted(task.id)
        (document,) = client.get(f"/api/v1/jobs/{job}").json()["tasks"]
        assert (document["gain_per_trial"], document["exhausted"]) == (0.0, True)

    def test_a_job_whose_model_fails_tells_the_reason_and_the_log(
        self, client: TestClient, store: Store
    ) -> None:
        job = submit(client)["id"]
        claimed = store.queue.claim_stage("worker-1", ["split"], [])
        assert claimed is not None
        store.queue.fail_stage(job, claimed.epoch, "Loop is not supported", "Traceback: ...")
        document = client.get(f"/api/v1/jobs/{job}").json()
        assert (document["state"], document["reason"]) == ("failed", "Loop is not supported")
        assert document["log"] == "Traceback: ..."
        assert document["finished_at"].endswith("Z")

    @pytest.mark.parametrize("path", ["jobs/7", "jobs/7/events", "budgets/7"])
    def test_what_is_not_there_is_not_found(self, client: TestClient, path: str) -> None:
        answer = client.get(f"/api/v1/{path}")
        assert (answer.status_code, answer.json()["type"]) == (404, "/problems/not-found")

    @pytest.mark.parametrize("number", ["0", "-1", "x", "99999999999999999999"])
    def test_what_is_no_number_of_a_job_is_refused(self, client: TestClient, number: str) -> None:
        answer = client.get(f"/api/v1/jobs/{number}")
        assert (answer.status_code, answer.json()["type"]) == (422, "/problems/invalid")


class TestCancelling:
    def test_a_cancelled_job_ends_and_keeps_what_it_measured(
        self, client: TestClient, store: Store
    ) -> None:
        job = submit(client)["id"]
        for _ in range(2):
            answer = client.delete(f"/api/v1/jobs/{job}")
            assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
        assert client.get(f"/api/v1/jobs/{job}").json()["state"] == "cancelled"

    def test_of_two_jobs_that_share_their_budget_the_other_goes_on(
        self, client: TestClient, store: Store
    ) -> None:
        announce(store, 4)
        first, second = submit(client), submit(client, budget={"trials": 150})
        assert first["budget"]["id"] == second["budget"]["id"]
        client.delete(f"/api/v1/jobs/{first['id']}")
        left = client.get(f"/api/v1/jobs/{second['id']}").json()
        assert (left["state"], left["budget"]["trials"]["limit"]) == ("queued", 150)


class TestWithoutAnyWorker:
    @pytest.fixture
    def client(self, make_client: Callable[..., TestClient]) -> TestClient:
        made = make_client(Role.SUBMIT, look_seconds=0.05)
        upload(made)
        return made

    def test_a_job_whose_deadline_comes_ends(
        self, client: TestClient, database: str, eventually: Callable[..., None]
    ) -> None:
        job = submit(client, budget={"deadline": FUTURE})["id"]
        run_sql(database, "UPDATE budgets SET deadline = :past", past="2026-01-02 06:00:00")

        def has_ended() -> bool:
            document = client.get(f"/api/v1/jobs/{job}").json()
            return (document["state"], document["reason"]) == ("done", "deadline")

        eventually(has_ended, "the job ended")

    def test_a_job_that_waits_is_told_of_by_an_event(
        self, client: TestClient, store: Store, eventually: Callable[..., None]
    ) -> None:
        job = submit(client)["id"]

        def is_told() -> bool:
            states = [event.data["state"] for event in store.queue.events(job)]
            return states == ["queued", "waiting"]

        eventually(is_told, "an event said that the job waits")

    def test_a_clients_key_of_long_ago_is_forgotten(
        self,
        make_client: Callable[..., TestClient],
        store: Store,
        database: str,
        eventually: Callable[..., None],
    ) -> None:
        key = Idempotency("client", "key-1", "hash of the body")
        store.queue.create_budget("night", BudgetLimits(trials=1), key)
        run_sql(
            database, "UPDATE idempotency_keys SET created_at = :past", past="2026-01-02 06:00:00"
        )
        make_client(look_seconds=0.05)

        def is_forgotten() -> bool:
            return store.queue.create_budget("night", BudgetLimits(trials=1), key)[1]

        eventually(is_forgotten, "the key made another budget")


class TestListing:
    @pytest.fixture
    def jobs(self, client: TestClient, store: Store) -> dict[str, int]:
        announce(store, 4)
        made = {
            "first": submit(client, name="first"),
            "a53": submit(client, target=A53, budget={"trials": 7}),
            "elsewhere": submit(client, board_class="rpi5"),
            "gone": submit(client, name="gone", shapes={"x": [1]}),
        }
        client.delete(f"/api/v1/jobs/{made['gone']['id']}")
        return {name: job["id"] for name, job in made.items()}

    @pytest.mark.parametrize(
        ("query", "names"),
        [
            ({}, ["gone", "elsewhere", "a53", "first"]),
            ({"state": "cancelled"}, ["gone"]),
            ({"state": ["waiting", "cancelled"]}, ["gone", "elsewhere"]),
            ({"state": "queued"}, ["a53", "first"]),
            ({"model": DIGEST, "name": "first"}, ["first"]),
            ({"model": "0" * 64}, []),
            # In another spelling.
            ({"target": A53.replace("llvm ", "llvm -keys=arm_cpu ")}, ["a53"]),
            ({"board_class": "rpi5"}, ["elsewhere"]),
        ],
    )
    def test_a_filter_leaves_what_it_names_the_newest_first(
        self, client: TestClient, jobs: dict[str, int], query: dict[str, Any], names: list[str]
    ) -> None:
        listed = client.get("/api/v1/jobs", params=query).json()
        assert [job["id"] for job in listed["items"]] == [jobs[name] for name in names]
        assert listed["next"] is None

    def test_a_list_leaves_out_tasks_and_logs(
        self, client: TestClient, jobs: dict[str, int]
    ) -> None:
        for job in client.get("/api/v1/jobs").json()["items"]:
            assert not {"tasks", "log", "latency"} & job.keys()

    def test_pages_show_each_job_once_while_others_are_submitted(
        self, client: TestClient, jobs: dict[str, int]
    ) -> None:
        seen: list[int] = []
        cursor: str | None = ""
        while cursor is not None:
            query = {"limit": 1, **({"cursor": cursor} if cursor else {})}
            page = client.get("/api/v1/jobs", params=query).json()
            seen += [job["id"] for job in page["items"]]
            cursor = page["next"]
            submit(client, name=f"later {len(seen)}")
        assert seen == sorted(jobs.values(), reverse=True)

    @pytest.mark.parametrize(
        ("query", "said"),
        [
            ({"cursor": "not one"}, "is none of the list of jobs"),
            ({"cursor": "cmVjb3Jkczox"}, "is none of the list of jobs"),  # of records
            ({"cursor": "am9iczo5OTk5OTk5OTk5"}, "is none of the list of jobs"),  # too large
            ({"cursor": "ü"}, "is none of the list of jobs"),
            ({"limit": "0"}, "query.limit"),
            ({"limit": "501"}, "query.limit"),
            ({"state": "sleeping"}, "query.state"),
            ({"target": "llvm"}, "no -mtriple"),
        ],
    )
    def test_what_no_list_gave_is_refused(
        self, client: TestClient, query: dict[str, str], said: str
    ) -> None:
        answer = client.get("/api/v1/jobs", params=query)
        assert answer.status_code == 422
        assert said in answer.json()["detail"]
