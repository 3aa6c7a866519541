"""Records, schedules, targets and boards over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cache_samples import (
    A53,
    A76,
    BOARD,
    EVIL_TRACE,
    TRACE,
    conv,
    failure,
    measure,
    run_sql,
    serve,
    success,
)
from fastapi.testclient import TestClient
from job_samples import announce

from tunebook.cache.access.tokens import Role
from tunebook.cache.records import ErrorClass
from tunebook.cache.store import BoardPeak, Store

KEY = conv().key.on(A76)


@pytest.fixture
def client(make_client: Callable[..., TestClient]) -> TestClient:
    return make_client(Role.READ)


@pytest.fixture
def ids(store: Store) -> dict[str, int]:
    made = measure(store, conv(), {"fast": success(1e-3), "slow": success(2e-3)})
    made |= measure(store, conv(28, op="conv2d"), {"broken": failure(ErrorClass.BUILD)}, target=A53)
    store.mark_verified(made["fast"])
    return made


class TestRecords:
    @pytest.mark.parametrize(
        ("query", "names"),
        [
            ({}, ["broken", "slow", "fast"]),
            ({"key": str(KEY)}, ["slow", "fast"]),
            ({"target": A53}, ["broken"]),
            ({"target": A53.replace("llvm ", "llvm -keys=arm_cpu ")}, ["broken"]),
            ({"op": "conv2d"}, ["broken"]),
            ({"error": "build"}, ["broken"]),
            ({"failed": "false"}, ["slow", "fast"]),
            ({"verified": "true"}, ["fast"]),
            ({"source": "import"}, []),
            ({"suspect": "true"}, []),
            ({"suspect": "false", "verified": "false"}, ["broken", "slow"]),
            ({"source": "search", "verified": "false", "failed": "false"}, ["slow"]),
        ],
    )
    def test_a_filter_leaves_what_it_names(
        self, client: TestClient, ids: dict[str, int], query: dict[str, str], names: list[str]
    ) -> None:
        listed = client.get("/api/v1/records", params=query).json()
        assert [one["id"] for one in listed["items"]] == [ids[name] for name in names]

    def test_a_record_of_a_board_that_had_drifted_says_so(
        self, client: TestClient, store: Store, ids: dict[str, int]
    ) -> None:
        for seconds in (1e-3, 1e-3, 1e-3, 1e-3, 1e-3):
            store.boards.note_reference(BOARD, "board-1", [seconds], {})
        made = measure(store, conv(), {"doubtful": success(3e-3)})
        for seconds in (2e-3, 2e-3):
            store.boards.note_reference(BOARD, "board-1", [seconds], {})
        (listed,) = client.get("/api/v1/records", params={"suspect": "true"}).json()["items"]
        assert (listed["id"], listed["suspect"]) == (made["doubtful"], True)
        found = client.get(f"/api/v1/records/{made['doubtful']}", params={"script": "false"})
        assert found.json()["suspect"] is True
        (first, *_) = client.get("/api/v1/records", params={"suspect": "false"}).json()["items"]
        assert (first["module_hash"], first["suspect"]) == ("broken", False)

    def test_pages_go_on_where_the_one_before_ended(
        self, client: TestClient, ids: dict[str, int]
    ) -> None:
        first = client.get("/api/v1/records?limit=2").json()
        rest = client.get("/api/v1/records", params={"limit": 2, "cursor": first["next"]}).json()
        pages = [[one["id"] for one in page["items"]] for page in (first, rest)]
        assert pages == [[ids["broken"], ids["slow"]], [ids["fast"]]]
        assert rest["next"] is None

    def test_a_record_tells_all_that_is_known_of_it(
        self, client: TestClient, ids: dict[str, int]
    ) -> None:
        record = client.get(f"/api/v1/records/{ids['fast']}?script=false").json()
        assert (record["key"], record["seconds"], record["error"]) == (str(KEY), 1e-3, None)
        assert (record["trace"], record["run_seconds"]) == (TRACE, [1e-3] * 3)
        assert record["tile_sizes"][0] == {"block": "", "axis": 0, "factors": [1, 4, 4, 4]}
        assert (record["board"], record["board_class"]) == ("board-1", BOARD)
        assert (record["source"], record["origin"], record["served"]) == ("search", "", True)
        assert (record["script"], record["script_error"]) == (None, "it was not asked for")

    def test_a_failure_tells_how(self, client: TestClient, ids: dict[str, int]) -> None:
        record = client.get(f"/api/v1/records/{ids['broken']}?script=false").json()
        assert (record["error"], record["error_text"]) == ("build", "it was build")
        assert (record["seconds"], record["run_seconds"]) == (None, [])

    def test_a_trace_that_is_refused_is_shown_and_not_read(
        self, client: TestClient, store: Store, database: str, ids: dict[str, int]
    ) -> None:
        run_sql(database, "UPDATE records SET trace = :trace", trace=EVIL_TRACE)
        record = client.get(f"/api/v1/records/{ids['fast']}?script=false").json()
        assert (record["trace"], record["tile_sizes"]) == (EVIL_TRACE, None)

    @pytest.mark.parametrize(
        ("query", "said"),
        [
            ({"key": "conv2d"}, "five parts"),
            ({"target": "host"}, "`tunebook target host`"),
            ({"error": "none"}, "query.error"),
            ({"verified": "maybe"}, "query.verified"),
            ({"op": "a\x00b"}, "query.op"),
            ({"cursor": "AAAA"}, "is none of the list of records"),
        ],
    )
    def test_a_filter_that_cannot_be_read_is_refused(
        self, client: TestClient, query: dict[str, str], said: str
    ) -> None:
        answer = client.get("/api/v1/records", params=query)
        assert answer.status_code == 422
        assert said in answer.json()["detail"]

    @pytest.mark.parametrize("path", ["records/7", "targets/7"])
    def test_what_is_not_there_is_not_found(self, client: TestClient, path: str) -> None:
        assert client.get(f"/api/v1/{path}").json()["type"] == "/problems/not-found"


class TestSchedulesAndTargets:
    @pytest.fixture
    def served(self, store: Store) -> None:
        serve(store, conv(56))
        serve(store, conv(28, op="conv2d"), target=A53)
        serve(store, conv(56), emulated=True, seconds=2e-3)

    @pytest.mark.parametrize(
        ("query", "seconds"),
        [
            ({}, [1e-3, 2e-3, 1e-3]),
            ({"target": A53}, [1e-3]),
            ({"op": "conv2d+add+relu"}, [1e-3, 2e-3]),
            ({"emulated": "true"}, [2e-3]),
            ({"key": str(KEY), "emulated": "false"}, [1e-3]),
        ],
    )
    @pytest.mark.parametrize("limit", [1, 50])
    def test_schedules_are_listed_by_what_is_asked_for(
        self,
        client: TestClient,
        served: None,
        query: dict[str, str],
        seconds: list[float],
        limit: int,
    ) -> None:
        listed: list[dict[str, Any]] = []
        cursor = None
        while True:
            more = {} if cursor is None else {"cursor": cursor}
            page = client.get("/api/v1/schedules", params={**query, **more, "limit": limit}).json()
            listed += page["items"]
            cursor = page["next"]
            if cursor is None:
                break
        assert [one["seconds"] for one in listed] == seconds

    def test_a_target_tells_how_much_is_stored_for_it(
        self, client: TestClient, served: None
    ) -> None:
        first, second = client.get("/api/v1/targets").json()["items"]
        assert (first["target"], first["models"]) == (A76, 1)
        assert (first["schedules"], first["emulated_schedules"]) == (1, 1)
        assert second["target"] == A53
        assert client.get(f"/api/v1/targets/{second['id']}").json() == second

    def test_boards_are_told_by_class_with_those_that_were_there_before(
        self, client: TestClient, store: Store
    ) -> None:
        announce(store, 4, 4)
        store.save_board_peak("rpi5", A76, BoardPeak(1e11, 1e10))
        here, before = client.get("/api/v1/boards").json()["items"]
        assert (here["board_class"], here["peaks"]) == (BOARD, [])
        assert [board["board"] for board in here["boards"]] == ["board-0", "board-1"]
        assert here["boards"][0]["workers"][0]["worker"] == "worker-1"
        assert (before["board_class"], before["boards"]) == ("rpi5", [])
        (peak,) = before["peaks"]
        assert (peak["target"], peak["flops_per_second"]) == (A76, 1e11)
        assert peak["measured_at"].endswith("Z")
