"""Boards over HTTP: what agents report, who may, and what completes the targets of a class."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from cache_samples import A53, BOARD, run_sql
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from job_samples import announce, submission, submit, upload
from lookup_samples import LOOKUPS, model, serve, workload

from tunebook.cache.access.tokens import Role
from tunebook.cache.boards.board_reports import (
    LONGEST_FAULT,
    LONGEST_TEXT,
    MOST_FEATURES,
    MOST_ITEMS,
    BoardReport,
    ClassDefaults,
)
from tunebook.cache.store import Store
from tunebook.service.api.documents.board_models import ReportSubmission

MakeClient = Callable[..., TestClient]
ProblemOf = Callable[[Any], str]
REPORT = {
    "cpu_model": "Cortex-A76",
    "mtriple": "aarch64-linux-gnu",
    "mcpu": "cortex-a76",
    "cores": 4,
    "features": ["dotprod", "neon"],
    "governor": "performance",
    "frequency_khz": 2_400_000,
    "temperature_c": 48.5,
    "throttled": [],
    "load": 0.1,
    "memory_bytes": 8 * 2**30,
    "memory_free_bytes": 7 * 2**30,
    "versions": {"tvm": "0.27.0"},
    "tracker": "192.0.2.1:9190",
    "registered": True,
    "serving": False,
    "restarts": 1,
    "fault": "its beat stood still",
}
A76_PLAIN = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4"
DEFAULTS = {"num_cores": 4, "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a76"}
PI = "/api/v1/boards/rpi4/pi-1"


def address(board_class: str, name: str) -> str:
    return f"/api/v1/boards/{board_class}/{quote(name, safe='')}"


@pytest.fixture
def agent(make_client: MakeClient) -> TestClient:
    """The agent of the board `pi-1` of class `rpi4`."""
    return make_client(Role.BOARD)


@pytest.fixture
def reader(make_client: MakeClient) -> TestClient:
    return make_client(Role.READ)


@pytest.fixture
def admin(make_client: MakeClient) -> TestClient:
    return make_client(Role.ADMIN)


class TestReports:
    def test_an_agent_reports_its_board_and_is_told_what_to_do(
        self, agent: TestClient, reader: TestClient
    ) -> None:
        answer = agent.put(PI, json=REPORT)
        assert answer.status_code == 200
        assert answer.json() == {"quarantine": "", "report_seconds": 10.0}
        (found,) = reader.get("/api/v1/boards").json()["items"]
        (board,) = found["boards"]
        assert (found["board_class"], found["defaults"]) == ("rpi4", DEFAULTS)
        assert (board["board"], board["state"], board["cores"]) == ("pi-1", "there", 4)
        assert board["report"] == REPORT
        assert board["reported_at"].endswith("Z")
        assert (board["workers"], board["silent"], board["suspect_records"]) == ([], False, 0)

    def test_what_a_board_does_not_tell_is_left_out(
        self, agent: TestClient, reader: TestClient
    ) -> None:
        assert agent.put(PI, json={}).status_code == 200
        ((board,),) = [one["boards"] for one in reader.get("/api/v1/boards").json()["items"]]
        assert (board["state"], board["report"]["temperature_c"]) == ("away", None)

    def test_a_board_in_quarantine_is_told_why_and_so_is_who_looks(
        self, agent: TestClient, reader: TestClient, store: Store
    ) -> None:
        agent.put(PI, json=REPORT)
        run_sql(store.url, "UPDATE boards SET quarantine = 'it drifted'")
        assert agent.put(PI, json=REPORT).json()["quarantine"] == "it drifted"
        ((board,),) = [one["boards"] for one in reader.get("/api/v1/boards").json()["items"]]
        assert (board["state"], board["quarantine"]) == ("quarantined", "it drifted")

    def test_an_agent_that_is_silent_is_told_of_with_its_last_report(
        self, agent: TestClient, reader: TestClient, store: Store
    ) -> None:
        agent.put(PI, json=REPORT)
        run_sql(store.url, "UPDATE boards SET reported_at = '2026-01-01 06:00:00'")
        ((board,),) = [one["boards"] for one in reader.get("/api/v1/boards").json()["items"]]
        assert (board["state"], board["silent"]) == ("silent", True)
        assert board["reported_at"] == "2026-01-01T06:00:00Z"
        assert board["report"]["cpu_model"] == "Cortex-A76"

    def test_boards_that_only_a_worker_has_are_told_beside_those_with_agents(
        self, agent: TestClient, reader: TestClient, store: Store
    ) -> None:
        agent.put(PI, json=REPORT)
        announce(store, 4, 2)
        ((first, second, third),) = [
            one["boards"] for one in reader.get("/api/v1/boards").json()["items"]
        ]
        assert [one["board"] for one in (first, second, third)] == ["board-0", "board-1", "pi-1"]
        assert (first["state"], first["report"], second["cores"]) == ("there", None, 2)
        (worker,) = first["workers"]
        assert (worker["worker"], worker["activity"]) == ("worker-1", "idle")


class TestWhoMay:
    @pytest.mark.parametrize(
        "other", [("rpi4", "pi-2"), ("rpi5", "pi-1"), ("rpi4", "PI-1"), ("pi-1", "rpi4")]
    )
    def test_the_token_of_a_board_is_for_no_other(
        self, agent: TestClient, store: Store, problem_of: ProblemOf, other: tuple[str, str]
    ) -> None:
        answer = agent.put(address(*other), json=REPORT)
        assert problem_of(answer) == "forbidden"
        told = answer.json()["detail"]
        assert "is for the board rpi4/pi-1" in told
        assert f"--board {'/'.join(other)}" in told
        assert store.boards.boards() == ()

    def test_who_has_the_token_of_another_board_is_told_nothing_about_the_body(
        self, agent: TestClient, problem_of: ProblemOf
    ) -> None:
        assert problem_of(agent.put(address("rpi4", "pi-2"), json=[])) == "forbidden"

    @pytest.mark.parametrize("role", [Role.READ, Role.SUBMIT, Role.WORKER])
    def test_reports_are_for_boards(
        self, make_client: MakeClient, problem_of: ProblemOf, role: Role
    ) -> None:
        assert problem_of(make_client(role).put(PI, json=REPORT)) == "forbidden"

    def test_an_administrator_may_report_any_board(self, admin: TestClient) -> None:
        assert admin.put(address("rpi5", "pi-7"), json=REPORT).status_code == 200

    def test_a_board_does_not_look_at_boards(self, agent: TestClient) -> None:
        assert agent.get("/api/v1/boards").status_code == 403

    @pytest.mark.parametrize("role", [one for one in Role if one is not Role.ADMIN])
    def test_defaults_are_for_administrators(
        self, make_client: MakeClient, problem_of: ProblemOf, role: Role
    ) -> None:
        client = make_client(role)
        answer = client.put("/api/v1/board-classes/rpi4", json=DEFAULTS)
        assert problem_of(answer) == "forbidden"
        assert problem_of(client.delete(f"{PI}/baseline")) == "forbidden"
        assert problem_of(client.delete(PI)) == "forbidden"

    def test_an_administrator_begins_a_boards_baseline_anew(
        self, admin: TestClient, store: Store, problem_of: ProblemOf
    ) -> None:
        assert problem_of(admin.delete(f"{PI}/baseline")) == "not-found"
        for seconds in (*[1e-3] * 5, 2e-3, 2e-3):
            store.boards.note_reference("rpi4", "pi-1", [seconds], {})
        assert admin.put(PI, json=REPORT).json()["quarantine"] != ""
        assert admin.delete(f"{PI}/baseline").status_code == 204
        assert admin.put(PI, json=REPORT).json()["quarantine"] == ""

    def test_an_administrator_forgets_a_board_that_is_gone(
        self, admin: TestClient, store: Store, problem_of: ProblemOf
    ) -> None:
        assert problem_of(admin.delete(PI)) == "not-found"
        store.boards.note_reference("rpi4", "pi-1", [1e-3], {})
        assert admin.delete(PI).status_code == 204
        assert store.boards.boards() == ()

    def test_a_board_that_reports_is_not_forgotten(
        self, admin: TestClient, store: Store, problem_of: ProblemOf
    ) -> None:
        admin.put(PI, json=REPORT)
        assert problem_of(admin.delete(PI)) == "usage"
        assert len(store.boards.boards()) == 1


class TestUntrustedReports:
    @pytest.mark.parametrize(
        "name", ["a", "pi 4 (kitchen)", "brett-ü", "板", "50%", "a?b#c", "x" * 100]
    )
    def test_a_board_may_have_any_name_of_one_printable_line(
        self, admin: TestClient, name: str
    ) -> None:
        assert admin.put(address("rpi4", name), json=REPORT).status_code == 200
        ((board,),) = [one["boards"] for one in admin.get("/api/v1/boards").json()["items"]]
        assert board["board"] == name

    @pytest.mark.parametrize(
        "name", ["\0", "a\nb", "a\u202eb", " a", "a ", "x" * 101, "\x1b[31m", "\ue000"]
    )
    def test_other_names_are_refused(self, admin: TestClient, store: Store, name: str) -> None:
        answer = admin.put(address("rpi4", name), json=REPORT)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["where"] == "path.name"
        assert store.boards.boards() == ()

    @pytest.mark.parametrize("place", ["rpi4/a%2Fb", "rpi4/..", "rpi4/", "a b/c", "%00/c", "-a/c"])
    def test_no_address_of_a_board_leads_elsewhere(
        self, admin: TestClient, store: Store, place: str
    ) -> None:
        assert admin.put(f"/api/v1/boards/{place}", json=REPORT).status_code in (404, 405, 422)
        assert store.boards.boards() == ()

    @pytest.mark.parametrize(
        "changed",
        [
            {"cpu_model": "x" * (LONGEST_TEXT + 1)},
            {"cpu_model": "a\0"},
            {"cpu_model": "a\x1b[2J"},
            {"cpu_model": "\ud800"},
            {"fault": "x" * (LONGEST_FAULT + 1)},
            {"fault": "a\nb"},
            {"mtriple": "a b"},
            {"mtriple": "x" * 101},
            {"mcpu": "cortex-a72 -mattr=+x"},
            {"cores": 0},
            {"cores": 4097},
            {"cores": 2.5},
            {"features": ["neon"] * (MOST_FEATURES + 1)},
            {"features": ["x" * (LONGEST_TEXT + 1)]},
            {"features": "neon"},
            {"throttled": ["x"] * (MOST_ITEMS + 1)},
            {"versions": {str(n): "1" for n in range(MOST_ITEMS + 1)}},
            {"versions": {"a": 1}},
            {"versions": {"a\n": "1"}},
            {"temperature_c": 1e4},
            {"temperature_c": "hot"},
            {"load": -1},
            {"frequency_khz": 2**64},
            {"memory_bytes": -1},
            {"restarts": 2**63},
            {"registered": "perhaps"},
            {"quarantine": ""},
            {str(n): n for n in range(100)},
        ],
        ids=lambda changed: str(changed)[:40],
    )
    def test_what_no_board_says_is_refused_by_its_field(
        self, agent: TestClient, store: Store, problem_of: ProblemOf, changed: dict[str, Any]
    ) -> None:
        body = json.dumps({**REPORT, **changed})
        answer = agent.put(PI, content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, problem_of(answer)) == (422, "invalid")
        assert len(answer.json()["errors"]) <= 50
        assert store.boards.boards() == ()

    @pytest.mark.parametrize(
        "body", [b"", b"[]", b"null", b"{", b"\xff", b'{"load": NaN}', b"[" * 5000]
    )
    def test_what_is_no_report_is_refused(
        self, agent: TestClient, store: Store, body: bytes
    ) -> None:
        headers = {"Content-Type": "application/json"}
        answer = agent.put(PI, content=body, headers=headers)
        assert answer.status_code in (400, 422)
        assert store.boards.boards() == ()

    @pytest.mark.parametrize(
        ("changed", "said"),
        [({"mtriple": "aarch64"}, "no triple"), ({"mtriple": "-"}, "no triple")],
    )
    def test_a_triple_that_is_none_is_refused(
        self, agent: TestClient, problem_of: ProblemOf, changed: dict[str, str], said: str
    ) -> None:
        answer = agent.put(PI, json={**REPORT, **changed})
        assert (answer.status_code, problem_of(answer)) == (422, "bad-target")
        assert said in answer.json()["detail"]

    def test_a_class_cannot_be_called_as_the_quarantine_of_another(
        self, admin: TestClient, problem_of: ProblemOf
    ) -> None:
        reported = admin.put(address("rpi4.quarantined", "pi-1"), json=REPORT)
        assert (reported.status_code, problem_of(reported)) == (422, "usage")
        defaults = {"num_cores": 4, "mtriple": "aarch64-linux-gnu"}
        answer = admin.put("/api/v1/board-classes/rpi4.quarantined", json=defaults)
        assert (answer.status_code, problem_of(answer)) == (422, "usage")

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        texts=st.lists(st.text(max_size=300), min_size=6, max_size=40),
        fault=st.text(max_size=1500),
        count=st.integers(-3, 2**70),
        figure=st.none() | st.floats() | st.integers(-(2**70), 2**70),
    )
    def test_whatever_a_board_says_can_be_shortened_to_what_is_taken(
        self, texts: list[str], fault: str, count: int, figure: Any
    ) -> None:
        report = BoardReport(
            cpu_model=texts[0],
            mtriple=texts[5],
            mcpu=fault,
            cores=count,
            frequency_khz=count,
            temperature_c=figure,
            load=figure,
            memory_bytes=count,
            memory_free_bytes=count,
            restarts=count,
            features=(texts[1],) * (count % 2000),
            governor=texts[2],
            throttled=tuple(texts),
            versions=dict.fromkeys(texts, texts[3]),
            tracker=texts[4],
            fault=fault,
        ).shortened()
        assert ReportSubmission.model_validate(vars(report)).report() == report


class TestDefaults:
    def test_an_administrator_changes_what_the_first_report_set(
        self, agent: TestClient, admin: TestClient, reader: TestClient
    ) -> None:
        agent.put(PI, json=REPORT)
        wanted = {**DEFAULTS, "num_cores": 2, "mtriple": "arm64-linux-gnu"}
        answer = admin.put("/api/v1/board-classes/rpi4", json=wanted)
        assert (answer.status_code, answer.json()) == (200, {**DEFAULTS, "num_cores": 2})
        agent.put(PI, json=REPORT)
        (found,) = reader.get("/api/v1/boards").json()["items"]
        assert found["defaults"] == {**DEFAULTS, "num_cores": 2}

    def test_a_class_without_boards_has_defaults_too(
        self, admin: TestClient, reader: TestClient
    ) -> None:
        admin.put("/api/v1/board-classes/rpi5", json=DEFAULTS)
        (found,) = reader.get("/api/v1/boards").json()["items"]
        assert (found["board_class"], found["boards"], found["defaults"]) == ("rpi5", [], DEFAULTS)

    @pytest.mark.parametrize(
        ("changed", "kind"),
        [
            ({"mtriple": "aarch64"}, "bad-target"),
            ({"mtriple": ""}, "invalid"),
            ({"mcpu": "a b"}, "invalid"),
            ({"num_cores": 0}, "invalid"),
            ({"mattr": "+neon"}, "invalid"),
        ],
        ids=str,
    )
    def test_defaults_are_what_a_target_can_have(
        self, admin: TestClient, problem_of: ProblemOf, changed: dict[str, Any], kind: str
    ) -> None:
        answer = admin.put("/api/v1/board-classes/rpi4", json={**DEFAULTS, **changed})
        assert (answer.status_code, problem_of(answer)) == (422, kind)


COMPLETED = [
    (None, A76_PLAIN),
    ("llvm", A76_PLAIN),
    ("llvm -num-cores=2", A76_PLAIN.replace("=4", "=2")),
    ("llvm -mcpu=cortex-a53 -mattr=+neon", A53),
    ("llvm -mtriple=x86_64-linux-gnu", "llvm -mtriple=x86_64-linux-gnu -num-cores=4"),
]


class TestCompletedTargets:
    @pytest.fixture(autouse=True)
    def defaults(self, store: Store) -> None:
        store.boards.set_defaults(BOARD, ClassDefaults(**DEFAULTS))  # type: ignore[arg-type]

    @pytest.fixture
    def client(self, make_client: MakeClient) -> TestClient:
        client = make_client(Role.SUBMIT)
        upload(client)
        return client

    @pytest.mark.parametrize(("given", "completed"), COMPLETED)
    def test_a_job_is_for_the_whole_target(
        self, client: TestClient, given: str | None, completed: str
    ) -> None:
        assert submit(client, target=given)["target"] == completed

    def test_what_the_class_supplies_counts_before_what_its_boards_have(
        self, client: TestClient, store: Store
    ) -> None:
        announce(store, 2, 2)
        assert submit(client, target="llvm")["target"] == A76_PLAIN

    def test_a_job_without_a_target_needs_a_class_that_has_all_of_it(
        self, client: TestClient, store: Store, problem_of: ProblemOf
    ) -> None:
        store.boards.set_defaults(BOARD, ClassDefaults(4, "aarch64-linux-gnu"))
        for board_class, said in ((BOARD, "no default of -mcpu"), ("rpi5", "no defaults")):
            body = submission(target=None, board_class=board_class)
            answer = client.post("/api/v1/jobs", json=body)
            assert (answer.status_code, problem_of(answer)) == (422, "bad-target")
            assert f"the board class {board_class} has {said}" in answer.json()["detail"]

    @pytest.mark.parametrize("given", [None, "llvm", {"kind": "llvm"}])
    def test_a_look_up_that_names_the_class_asks_for_the_whole_target(
        self, client: TestClient, store: Store, given: Any
    ) -> None:
        serve(store, workload(56), target=A76_PLAIN)
        asked = {"model": model(1, target=A76_PLAIN).digest, "board_class": BOARD}
        body = {**asked, **({} if given is None else {"target": given})}
        (hit,) = client.post(LOOKUPS, json=body).json()["hits"]
        assert A76_PLAIN in hit["key"]

    def test_a_change_of_the_class_ends_what_was_remembered(
        self, client: TestClient, store: Store, problem_of: ProblemOf
    ) -> None:
        serve(store, workload(56), target=A76_PLAIN)
        body = {"model": model(1, target=A76_PLAIN).digest, "board_class": BOARD}
        for _ in range(2):
            assert client.post(LOOKUPS, json=body).status_code == 200
        store.boards.set_defaults(BOARD, ClassDefaults(2, "aarch64-linux-gnu", "cortex-a76"))
        assert problem_of(client.post(LOOKUPS, json=body)) == "model-not-split"

    def test_a_class_that_changes_during_a_look_up_is_asked_for_again(
        self,
        client: TestClient,
        store: Store,
        problem_of: ProblemOf,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """No other way leads in between: the change comes right after the defaults were read."""
        serve(store, workload(56), target=A76_PLAIN)
        body = {"model": model(1, target=A76_PLAIN).digest, "board_class": BOARD}
        read = store.boards.defaults

        def read_and_change(name: str) -> ClassDefaults | None:
            found = read(name)
            store.boards.set_defaults(BOARD, ClassDefaults(2, "aarch64-linux-gnu", "cortex-a76"))
            return found

        monkeypatch.setattr(store.boards, "defaults", read_and_change)
        assert client.post(LOOKUPS, json=body).status_code == 200
        assert problem_of(client.post(LOOKUPS, json=body)) == "model-not-split"

    @pytest.mark.parametrize("body", [{}, {"board_class": "a b"}])
    def test_a_look_up_names_a_target_or_a_class(
        self, client: TestClient, problem_of: ProblemOf, body: dict[str, Any]
    ) -> None:
        answer = client.post(LOOKUPS, json={"model": "0" * 64, **body})
        assert problem_of(answer) == "invalid"

    def test_a_plan_is_for_the_whole_target(self, client: TestClient) -> None:
        job = {"model": "0" * 64, "board_class": BOARD}
        answer = client.post("/api/v1/plans", json={"jobs": [job], "budget": {"trials": 10}})
        assert answer.status_code == 200
        assert not [line for line in answer.json()["assumptions"] if "-num-cores" in line]
