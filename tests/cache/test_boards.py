"""Boards and their classes as the store keeps them, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from cache_samples import BOARD, conv, measure, run_sql, success
from lease_contract import WallClock

from tunebook.cache.board_names import own_class, quarantine_class
from tunebook.cache.boards import board_reports
from tunebook.cache.boards.board_reports import (
    BoardReport,
    ClassDefaults,
)
from tunebook.cache.errors import TargetError, UsageError
from tunebook.cache.storage.moments import now
from tunebook.cache.store import Store

REPORT = BoardReport(
    cpu_model="Cortex-A72",
    mtriple="aarch64-linux-gnu",
    mcpu="cortex-a72",
    cores=4,
    features=("crc", "neon"),
    governor="performance",
    frequency_khz=1_500_000,
    temperature_c=51.2,
    throttled=("under-voltage",),
    load=0.08,
    memory_bytes=4 * 2**30,
    memory_free_bytes=3 * 2**30,
    versions={"tvm": "0.27.0", "linux": "6.1"},
    tracker="192.0.2.1:9190",
    registered=True,
    serving=False,
    restarts=2,
    fault="its beat stood still",
)
DEFAULTS = ClassDefaults(4, "aarch64-linux-gnu", "cortex-a72")
NAME = "board-1"


@pytest.fixture(params=["sqlite_url", pytest.param("postgresql_url", marks=pytest.mark.postgresql)])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with Store.open(url) as opened:
        yield opened


def age(url: str, seconds: float) -> None:
    """Makes all reports so much older."""
    moment = now() - timedelta(seconds=seconds)
    run_sql(url, "UPDATE boards SET reported_at = :moment", moment=moment.isoformat(" "))


class TestReports:
    def test_a_board_is_known_as_its_agent_reported_it(self, store: Store) -> None:
        orders = store.boards.report(BOARD, NAME, REPORT)
        assert (orders.quarantine, orders.report_seconds > 0) == ("", True)
        state = store.boards.board(BOARD, NAME)
        assert state is not None
        assert (state.board_class, state.name, state.report) == (BOARD, NAME, REPORT)
        assert state.reported_at is not None and state.reported_at.tzinfo is not None
        assert (state.silent, state.quarantine, state.suspect_records) == (False, "", 0)
        assert (state.reference_seconds, state.measured_at) == (None, None)

    def test_the_last_report_counts(self, store: Store) -> None:
        store.boards.report(BOARD, NAME, REPORT)
        store.boards.report(BOARD, "board-2", REPORT)
        store.boards.report(BOARD, NAME, BoardReport(cpu_model="another"))
        first, second = store.boards.boards()
        assert first.report == BoardReport(cpu_model="another")
        assert second.report == REPORT

    def test_boards_come_by_class_and_name(self, store: Store) -> None:
        for board_class, name in (("rpi5", "b"), ("rpi4", "b"), ("rpi5", "a")):
            store.boards.report(board_class, name, REPORT)
        assert [(one.board_class, one.name) for one in store.boards.boards()] == [
            ("rpi4", "b"),
            ("rpi5", "a"),
            ("rpi5", "b"),
        ]
        assert [one.name for one in store.boards.boards("rpi5")] == ["a", "b"]
        assert store.boards.board("rpi4", "a") is None

    def test_a_report_of_another_version_is_read_as_far_as_it_is_known(
        self, store: Store, url: str
    ) -> None:
        store.boards.report(BOARD, NAME, REPORT)
        run_sql(url, """UPDATE boards SET report = '{"cpu_model": "A72", "fans": 2}'""")
        state = store.boards.board(BOARD, NAME)
        assert state is not None
        assert state.report == BoardReport(cpu_model="A72")

    def test_nobody_reports_under_the_key_of_boards_in_quarantine(self, store: Store) -> None:
        with pytest.raises(UsageError, match=f"and no class; name {BOARD}$"):
            store.boards.report(quarantine_class(BOARD), NAME, REPORT)
        assert own_class(quarantine_class(BOARD)) == BOARD

    def test_an_agent_is_told_that_its_board_is_in_quarantine(self, store: Store, url: str) -> None:
        store.boards.report(BOARD, NAME, REPORT)
        run_sql(
            url, "UPDATE boards SET quarantine = 'it drifted', quarantined_at = :at", at=str(now())
        )
        assert store.boards.report(BOARD, NAME, REPORT).quarantine == "it drifted"
        state = store.boards.board(BOARD, NAME)
        assert state is not None
        assert state.quarantine == "it drifted"
        assert state.quarantined_at is not None

    def test_a_board_has_its_own_suspect_records(self, store: Store, url: str) -> None:
        for name in (NAME, "board-2"):
            store.boards.report(BOARD, name, REPORT)
        measure(store, conv(), {name: success(1e-3) for name in ("a", "b", "c")})
        run_sql(url, "UPDATE records SET suspect = :yes WHERE module_hash <> 'c'", yes=True)
        assert [one.suspect_records for one in store.boards.boards(BOARD)] == [2, 0]
        assert [one.suspect_records for one in store.boards.boards()] == [2, 0]


class TestSilence:
    def test_an_agent_that_missed_reports_is_silent_until_the_next(
        self, store: Store, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # The time that the test takes is to count for nothing.
        monkeypatch.setattr(board_reports, "SILENT_SECONDS", 3600.0)
        store.boards.report(BOARD, NAME, REPORT)
        for seconds, silent in ((1800, False), (3601, True)):
            age(url, seconds)
            assert [one.silent for one in store.boards.boards()] == [silent]
        store.boards.report(BOARD, NAME, REPORT)
        assert [one.silent for one in store.boards.boards()] == [False]

    def test_a_board_without_an_agent_is_not_silent(self, store: Store, url: str) -> None:
        store.boards.report(BOARD, NAME, REPORT)
        run_sql(url, "UPDATE boards SET reported_at = NULL, report = '{}'")
        (state,) = store.boards.boards()
        assert (state.report, state.silent) == (None, False)

    @pytest.mark.postgresql
    def test_a_server_goes_by_its_own_clock(
        self, postgresql_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Coordinators on several machines need not agree on the time."""
        wall = WallClock(monkeypatch)
        with Store.open(postgresql_url) as store:
            wall.step(-3)
            store.boards.report(BOARD, NAME, REPORT)
            wall.step(7)
            assert [one.silent for one in store.boards.boards()] == [False]


class TestDefaults:
    def test_the_first_report_of_a_class_sets_its_defaults(self, store: Store) -> None:
        assert store.boards.defaults(BOARD) is None
        store.boards.report(BOARD, NAME, REPORT)
        assert store.boards.defaults(BOARD) == DEFAULTS
        store.boards.report(BOARD, "board-2", replace(REPORT, cores=2, mcpu="cortex-a53"))
        store.boards.report("rpi5", "board-3", replace(REPORT, mcpu="cortex-a76"))
        assert store.boards.all_defaults() == {
            BOARD: DEFAULTS,
            "rpi5": replace(DEFAULTS, mcpu="cortex-a76"),
        }

    def test_a_report_without_a_triple_leaves_it_to_the_next(self, store: Store) -> None:
        store.boards.report(BOARD, NAME, replace(REPORT, mtriple=""))
        assert store.boards.defaults(BOARD) is None
        store.boards.report(BOARD, "board-2", replace(REPORT, mcpu=""))
        assert store.boards.defaults(BOARD) == replace(DEFAULTS, mcpu="")

    def test_a_board_of_another_architecture_is_known_and_completes_nothing(
        self, store: Store
    ) -> None:
        store.boards.report(BOARD, NAME, replace(REPORT, mtriple="riscv64-linux-gnu"))
        assert [one.name for one in store.boards.boards()] == [NAME]
        assert store.boards.defaults(BOARD) is None
        with pytest.raises(TargetError, match="no code for the architecture"):
            store.boards.set_defaults(BOARD, replace(DEFAULTS, mtriple="riscv64-linux-gnu"))

    def test_defaults_are_spelt_as_canonical_targets_are(self, store: Store) -> None:
        store.boards.report(BOARD, NAME, replace(REPORT, mtriple="arm64-unknown-Linux-gnu"))
        assert store.boards.defaults(BOARD) == DEFAULTS
        stored = store.boards.set_defaults("rpi5", replace(DEFAULTS, mtriple="arm64-linux-gnu"))
        assert stored == store.boards.defaults("rpi5") == DEFAULTS

    @pytest.mark.parametrize(
        "changed",
        [
            {"mtriple": "aarch64"},
            {"mcpu": "a b"},
            {"cores": 0},
            {"cores": 5_000},
        ],
        ids=str,
    )
    def test_what_no_target_can_have_is_refused_and_nothing_stored(
        self, store: Store, changed: dict[str, object]
    ) -> None:
        with pytest.raises(TargetError):
            store.boards.report(BOARD, NAME, replace(REPORT, **changed))  # type: ignore[arg-type]
        assert store.boards.boards() == ()
        assert store.boards.defaults(BOARD) is None

    def test_what_is_set_stays_whatever_boards_report(self, store: Store) -> None:
        wanted = ClassDefaults(2, "armv7l-linux-gnueabihf", "cortex-a53")
        for _ in range(2):
            store.boards.set_defaults(BOARD, wanted)
            store.boards.report(BOARD, NAME, REPORT)
            assert store.boards.defaults(BOARD) == wanted

    def test_only_a_change_of_defaults_ends_what_is_remembered_of_look_ups(
        self, store: Store
    ) -> None:
        revisions = [store.revisions.now().schedules]
        for change in (
            lambda: store.boards.report(BOARD, NAME, REPORT),
            lambda: store.boards.report(BOARD, NAME, REPORT),
            lambda: store.boards.set_defaults(BOARD, replace(DEFAULTS, num_cores=2)),
        ):
            change()
            revisions.append(store.revisions.now().schedules)
        before, first, again, changed = revisions
        assert before < first == again < changed

    def test_boards_that_report_at_once_agree_on_the_defaults(self, store: Store) -> None:
        def report(number: int) -> ClassDefaults | None:
            store.boards.report(BOARD, f"board-{number}", replace(REPORT, cores=number))
            return store.boards.defaults(BOARD)

        with ThreadPoolExecutor(8) as threads:
            seen = set(threads.map(report, range(1, 9)))
        assert len(seen) == 1
        assert len(store.boards.boards(BOARD)) == 8
