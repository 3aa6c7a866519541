"""Boards that drift, and what becomes of their records, on every database."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from cache_samples import (
    A53,
    A76,
    BOARD,
    COMPILER,
    TRACE,
    candidates,
    claim_new_round,
    conv,
    failure,
    measure,
    serve,
    start_job,
    success,
)
from queue_samples import submit
from store_contract import StoreFixtures

from tunebook.cache.boards import references
from tunebook.cache.boards.drift import FEWEST_RUNS
from tunebook.cache.errors import DatabaseError, NotFoundError
from tunebook.cache.lists.catalogue import RecordFilter
from tunebook.cache.queue.fleet import ServedBoard
from tunebook.cache.queue.submissions import JobState
from tunebook.cache.records import Candidate, ErrorClass, Measurement, Record, Source
from tunebook.cache.storage.moments import now
from tunebook.cache.store import Store
from tunebook.cache.stored.imported_records import ImportedRecord

FIRST, SECOND = "board-1", "board-2"
KEY = conv().key.on(A76)
EVERY = 900.0


class WallClock:
    """The database's clock, as far as references go by it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now = now()
        monkeypatch.setattr(references, "database_now", self._read)

    def step(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)

    def _read(self, _: object) -> datetime:
        return self._now


def refer(store: Store, *milliseconds: float, board: str = FIRST, **state: object) -> str:
    """Measures a board's reference so many times; why it is in quarantine after the last."""
    quarantine = ""
    for one in milliseconds:
        runs = [1e-3 * one * disturbed for disturbed in (1, 1, 1, 1, 8)]
        quarantine = store.boards.note_reference(BOARD, board, runs, state)
    return quarantine


def learn(store: Store, *boards: str) -> None:
    """Boards whose reference takes a millisecond, known well enough to be judged."""
    for board in boards or (FIRST,):
        refer(store, *[1.0] * FEWEST_RUNS, board=board)


def drift(store: Store, board: str = FIRST) -> str:
    return refer(store, 2.0, 2.0, board=board)


def by(board: str, seconds: float, **more: float) -> Measurement:
    return replace(success(seconds, **more), board=board)


def suspect_names(store: Store) -> set[str]:
    """The modules of all records that are suspect."""
    records = store.catalogue.records(RecordFilter(suspect=True))
    assert all(one.suspect for one in records)
    return {one.module_hash for one in records}


def served_seconds(store: Store) -> float | None:
    hit = store.lookup([KEY]).hits.get(KEY)
    return None if hit is None else hit.seconds


def only_suspect(store: Store) -> Record:
    (record,) = store.boards.suspects(BOARD, A76, COMPILER, 10)
    return record


class DueContract(StoreFixtures):
    @pytest.fixture
    def wall(self, monkeypatch: pytest.MonkeyPatch) -> WallClock:
        return WallClock(monkeypatch)

    def test_a_board_that_nobody_has_measured_is_due(self, store: Store) -> None:
        assert store.boards.reference_due(BOARD, FIRST, EVERY)

    def test_a_board_is_due_again_after_a_while(self, store: Store, wall: WallClock) -> None:
        learn(store)
        assert not store.boards.reference_due(BOARD, FIRST, EVERY)
        wall.step(EVERY - 1)
        assert not store.boards.reference_due(BOARD, FIRST, EVERY)
        wall.step(2)
        assert store.boards.reference_due(BOARD, FIRST, EVERY)
        assert store.boards.reference_due("another class", FIRST, EVERY)

    def test_a_board_that_cannot_be_judged_yet_is_due_more_often(
        self, store: Store, wall: WallClock
    ) -> None:
        refer(store, 1.0)
        assert not store.boards.reference_due(BOARD, FIRST, EVERY)
        wall.step(EVERY / 9)
        assert store.boards.reference_due(BOARD, FIRST, EVERY)

    def test_a_clock_that_was_set_back_makes_a_board_due(
        self, store: Store, wall: WallClock
    ) -> None:
        learn(store)
        wall.step(-3600)
        assert store.boards.reference_due(BOARD, FIRST, EVERY)

    def test_a_board_is_due_at_once_while_its_last_measurement_speaks_against_its_standing(
        self, store: Store
    ) -> None:
        def due_after(milliseconds: float) -> bool:
            refer(store, milliseconds)
            return store.boards.reference_due(BOARD, FIRST, EVERY)

        learn(store)
        assert [due_after(one) for one in (2.0, 1.0, 2.0, 2.0)] == [True, False, True, False]
        assert [due_after(one) for one in (1.0, 1.0)] == [True, False]


class QuarantineContract(StoreFixtures):
    def test_the_second_measurement_beyond_puts_a_board_into_quarantine_with_the_reason(
        self, store: Store
    ) -> None:
        learn(store, FIRST, SECOND)
        assert refer(store, 1.5) == ""
        reason = refer(store, 1.5, temperature_c=84.0, governor="powersave")
        assert "1.5 ms, twice in a row 50% slower than its own 1 ms" in reason
        assert "84 °C, governor powersave" in reason
        assert store.boards.quarantined(BOARD) == {FIRST}
        assert store.boards.quarantine(BOARD, FIRST) == reason
        assert store.boards.quarantine(BOARD, SECOND) == ""
        state = store.boards.board(BOARD, FIRST)
        assert state is not None
        assert (state.quarantine, state.reference_seconds) == (reason, 1e-3)
        assert state.reference_spread == pytest.approx(0.05)
        assert state.quarantined_at == state.measured_at

    def test_a_board_comes_back_with_the_second_measurement_within(self, store: Store) -> None:
        learn(store)
        assert drift(store) != ""
        assert refer(store, 1.0) != ""
        assert refer(store, 1.0) == ""
        assert store.boards.quarantined(BOARD) == frozenset()
        state = store.boards.board(BOARD, FIRST)
        assert state is not None
        assert (state.quarantine, state.quarantined_at) == ("", None)

    def test_a_board_may_begin_a_new_baseline(self, store: Store) -> None:
        learn(store)
        measure(store, conv(), {"a": by(FIRST, 1e-3)})
        drift(store)
        store.boards.begin_baseline(BOARD, FIRST)
        assert store.boards.quarantined(BOARD) == frozenset()
        assert store.boards.reference_due(BOARD, FIRST, EVERY)
        assert refer(store, *[2.0] * FEWEST_RUNS, 2.0, 2.0) == ""
        assert suspect_names(store) == {"a"}
        with pytest.raises(NotFoundError, match="there is no board rpi4/nobody"):
            store.boards.begin_baseline(BOARD, "nobody")

    def test_a_board_that_is_gone_may_be_forgotten(self, store: Store) -> None:
        learn(store)
        measure(store, conv(), {"a": by(FIRST, 1e-3)})
        drift(store)
        store.boards.forget(BOARD, FIRST)
        assert store.boards.board(BOARD, FIRST) is None
        assert suspect_names(store) == {"a"}
        with pytest.raises(NotFoundError, match=f"there is no board {BOARD}/{FIRST}"):
            store.boards.forget(BOARD, FIRST)
        assert refer(store, *[2.0] * FEWEST_RUNS) == ""
        state = store.boards.board(BOARD, FIRST)
        assert state is not None
        assert state.reference_seconds == pytest.approx(2e-3)

    def test_a_job_waits_while_all_boards_of_its_class_are_in_quarantine(
        self, store: Store
    ) -> None:
        boards = [ServedBoard(BOARD, name, emulated=False, cores=4) for name in (FIRST, SECOND)]
        store.fleet.announce("worker", boards)
        job = submit(store)
        learn(store, FIRST, SECOND)
        drift(store, FIRST)
        assert store.queue.job(job).state is JobState.QUEUED
        drift(store, SECOND)
        waiting = store.queue.job(job)
        assert waiting.state is JobState.WAITING
        assert "that is not in quarantine" in waiting.reason
        refer(store, 1.0, 1.0, board=SECOND)
        assert store.queue.job(job).state is JobState.QUEUED

    def test_measurements_are_forgotten_but_for_the_baselines_and_the_newest(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(references, "_KEPT_RUNS", 5)
        learn(store)
        refer(store, *[1.04] * 40)
        state = store.boards.board(BOARD, FIRST)
        assert state is not None
        # Of the first twenty fifteen took 1.04 ms.
        assert state.reference_seconds == pytest.approx(1.04e-3)
        assert drift(store) != ""


class SuspectContract(StoreFixtures):
    def test_what_a_board_measured_since_it_last_measured_well_is_suspect(
        self, store: Store
    ) -> None:
        learn(store, FIRST, SECOND)
        measure(store, conv(), {"before": by(FIRST, 1e-3)})
        refer(store, 1.0)
        lost = replace(failure(ErrorClass.RUN_TIMEOUT), board=FIRST, board_class=BOARD)
        measurements = {
            "after": by(FIRST, 1e-3),
            "too late": lost,
            "of another": by(SECOND, 1e-3),
            "not built": failure(ErrorClass.BUILD),
        }
        measure(store, conv(), measurements)
        refer(store, 2.0)
        assert suspect_names(store) == set()
        measure(store, conv(28), {"in between": by(FIRST, 1e-3)})
        refer(store, 2.0)
        assert suspect_names(store) == {"after", "too late", "in between"}
        counts = {one.name: one.suspect_records for one in store.boards.boards(BOARD)}
        assert counts == {FIRST: 3, SECOND: 0}

    def test_boards_of_one_name_and_two_classes_are_two_boards(self, store: Store) -> None:
        learn(store)
        other = replace(by(FIRST, 1e-3), board_class="rpi5")
        measure(store, conv(), {"a": by(FIRST, 1e-3), "other": other})
        drift(store)
        assert suspect_names(store) == {"a"}

    def test_what_was_imported_stays_as_it_is_until_the_board_measures_it(
        self, store: Store
    ) -> None:
        store.interchange.import_workloads([conv()])
        imported = [ImportedRecord(KEY, TRACE + " " * n, (1e-3,), f"module {n}") for n in range(2)]
        store.interchange.import_records(imported)
        learn(store)
        # Its id is older than the board's last good reference.
        measure(store, conv(), {"module 0": by(FIRST, 2e-3)})
        drift(store)
        assert suspect_names(store) == {"module 0"}

    def test_a_disturbed_moment_makes_nothing_suspect(self, store: Store) -> None:
        learn(store)
        measure(store, conv(), {"a": by(FIRST, 1e-3)})
        refer(store, 2.0, 1.0)
        drift(store)
        assert suspect_names(store) == set()

    def test_results_that_still_arrive_from_a_board_in_quarantine_are_suspect(
        self, store: Store
    ) -> None:
        learn(store, FIRST, SECOND)
        drift(store)
        late = {"late": by(FIRST, 1e-3), "of another": by(SECOND, 1e-3)}
        measure(store, conv(), late)
        refer(store, 1.0)
        measure(store, conv(), {"doubtful": by(FIRST, 1e-3)})
        refer(store, 1.0)
        measure(store, conv(), {"well again": by(FIRST, 1e-3)})
        assert suspect_names(store) == {"late", "doubtful"}

    def test_wrong_results_are_not_in_doubt(self, store: Store) -> None:
        learn(store)
        ids = measure(store, conv(), {"wrong": by(FIRST, 1e-3), "crashed": by(FIRST, 2e-3)})
        store.mark_failed(ids["wrong"], ErrorClass.WRONG_OUTPUT, "differs")
        drift(store)
        assert suspect_names(store) == {"crashed"}
        store.mark_failed(ids["crashed"], ErrorClass.RUN, "crashed when it was verified")
        assert suspect_names(store) == set()

    def test_a_suspect_record_that_is_taken_over_stays_suspect(self, store: Store) -> None:
        learn(store)
        ids = measure(store, conv(), {"a": by(FIRST, 1e-3)})
        drift(store)
        adopted = store.adopt_record(ids["a"], conv().key.on(A53), "the same code")
        assert store.record(adopted).suspect


class ServedContract(StoreFixtures):
    def test_a_suspect_record_that_is_served_stays_so_while_there_is_no_other(
        self, store: Store
    ) -> None:
        learn(store)
        serve(store, conv(), seconds=2e-3)
        drift(store)
        assert served_seconds(store) == 2e-3
        ids = measure(store, conv(), {"slower": by(SECOND, 3e-3), "slowest": by(SECOND, 4e-3)})
        # A suspect time says nothing: slower ones are worth verifying.
        assert [one.id for one in store.unverified_best(KEY)] == [ids["slower"], ids["slowest"]]
        store.mark_verified(ids["slower"])
        assert served_seconds(store) == 3e-3
        assert store.unverified_best(KEY) == []

    def test_what_is_served_is_chosen_anew_when_it_becomes_suspect(self, store: Store) -> None:
        learn(store)
        serve(store, conv(), seconds=3e-3)
        refer(store, 1.0)
        serve(store, conv(), seconds=2e-3)
        assert served_seconds(store) == 2e-3
        before = store.revisions.now().schedules
        drift(store)
        assert served_seconds(store) == 3e-3
        assert store.revisions.now().schedules > before

    def test_an_unverified_suspect_waits_for_verification_only_where_nothing_better_is_served(
        self, store: Store
    ) -> None:
        learn(store)
        ids = measure(store, conv(), {"a": by(FIRST, 2e-3), "b": by(FIRST, 1e-3)})
        drift(store)
        assert [one.id for one in store.unverified_best(KEY)] == [ids["b"], ids["a"]]
        store.mark_verified(ids["a"])
        assert [one.id for one in store.unverified_best(KEY)] == [ids["b"]]
        other = measure(store, conv(), {"c": by(SECOND, 3e-3)})
        assert [one.id for one in store.unverified_best(KEY)] == [other["c"], ids["b"]]
        store.mark_verified(other["c"])
        assert store.unverified_best(KEY) == []

    def test_the_search_learns_nothing_from_suspect_times(self, store: Store) -> None:
        learn(store)
        featured = replace(by(FIRST, 2e-3), features=b"\0" * 8, feature_columns=2)
        measure(store, conv(), {"good": featured})
        refer(store, 1.0)
        measure(store, conv(), {"a": replace(featured, run_seconds=(1e-3,))})
        drift(store)
        job = start_job(store)
        (task,) = store.task_states(job)
        assert (task.best_seconds, task.trials, task.suspects) == (2e-3, 2, 1)
        assert not task.best_is_suspect
        learnt = store.training_records(A76, COMPILER, 10)
        assert [one.candidate.module_hash for one in learnt] == ["good"]
        claimed = claim_new_round(store, job)
        store.finish_round(claimed.id, claimed.epoch)
        (task,) = store.task_states(job)
        assert task.history[-1] == 2e-3

    def test_whoever_has_learnt_is_told_that_records_became_suspect(self, store: Store) -> None:
        learn(store)
        drift(store)
        assert store.boards.suspects_revision() == 0
        refer(store, 1.0, 1.0)
        measure(store, conv(), {"a": by(FIRST, 1e-3)})
        drift(store)
        assert store.boards.suspects_revision() == 1

    def test_a_task_says_where_its_best_time_is_suspect(self, store: Store) -> None:
        learn(store)
        measure(store, conv(), {"a": by(FIRST, 1e-3)})
        drift(store)
        (task,) = store.task_states(start_job(store))
        assert (task.best_seconds, task.best_is_suspect) == (1e-3, True)


class RemeasuredContract(StoreFixtures):
    def test_a_record_that_is_measured_again_has_the_new_figures(self, store: Store) -> None:
        learn(store, FIRST, SECOND)
        serve(store, conv(), seconds=2e-3)
        drift(store)
        suspect = only_suspect(store)
        before = store.revisions.now().schedules
        assert store.boards.remeasured(suspect.id, by(SECOND, 1e-3))
        record = store.record(suspect.id)
        assert (record.suspect, record.verified) == (False, True)
        assert (record.measurement.board, record.measurement.seconds) == (SECOND, 1e-3)
        assert served_seconds(store) == 1e-3
        assert store.revisions.now().schedules > before
        assert store.catalogue.record(suspect.id).repeats == 1

    def test_measuring_again_costs_board_seconds_and_no_trial(self, store: Store) -> None:
        learn(store)
        job = start_job(store)
        claimed = claim_new_round(store, job, size=1)
        (slot,) = store.store_candidates(claimed.id, claimed.epoch, candidates("a"))
        measured = by(FIRST, 1e-3, board_seconds=1.5)
        store.store_result(claimed.id, claimed.epoch, slot.number, measured)
        store.finish_round(claimed.id, claimed.epoch)
        drift(store)
        before = store.budget(job)
        store.boards.remeasured(only_suspect(store).id, by(SECOND, 1e-3, board_seconds=2.0))
        assert store.budget(job) == replace(before, board_seconds=3.5)

    def test_what_no_round_has_measured_is_measured_again_for_nobodys_budget(
        self, store: Store
    ) -> None:
        learn(store)
        ids = measure(store, conv(), {"a": by(FIRST, 1e-3)})
        adopted = store.adopt_record(ids["a"], conv().key.on(A53), "the same code")
        drift(store)
        assert store.boards.remeasured(adopted, by(SECOND, 2e-3))
        assert store.record(adopted).measurement.seconds == 2e-3
        assert suspect_names(store) == {"a"}
        assert store.boards.suspect_targets(BOARD, COMPILER) == (A76,)

    def test_a_record_that_fails_elsewhere_is_a_failure(self, store: Store) -> None:
        learn(store)
        serve(store, conv(), seconds=2e-3)
        drift(store)
        failed = replace(failure(ErrorClass.RUN), board=SECOND, board_class=BOARD)
        suspect = only_suspect(store)
        assert store.boards.remeasured(suspect.id, failed)
        record = store.record(suspect.id)
        assert (record.verified, record.measurement.error) == (False, ErrorClass.RUN)
        assert served_seconds(store) is None

    def test_a_failure_that_is_none_elsewhere_waits_for_its_verification(
        self, store: Store
    ) -> None:
        learn(store)
        late = replace(failure(ErrorClass.RUN_TIMEOUT), board=FIRST, board_class=BOARD)
        measure(store, conv(), {"a": late})
        drift(store)
        assert store.boards.remeasured(only_suspect(store).id, by(SECOND, 1e-3))
        assert [one.measurement.seconds for one in store.unverified_best(KEY)] == [1e-3]

    @pytest.mark.parametrize(
        "measurement",
        [
            replace(failure(ErrorClass.BOARD_LOST), board=SECOND, board_class=BOARD),
            by(FIRST, 1e-3),
        ],
        ids=["a lost board", "a board in quarantine"],
    )
    def test_what_can_say_nothing_is_kept_as_a_repeat_only(
        self, store: Store, measurement: Measurement
    ) -> None:
        learn(store)
        measure(store, conv(), {"a": by(FIRST, 2e-3)})
        drift(store)
        suspect = only_suspect(store)
        assert not store.boards.remeasured(suspect.id, measurement)
        assert store.record(suspect.id) == suspect
        assert store.catalogue.record(suspect.id).repeats == 1

    def test_of_two_that_measure_a_record_again_the_first_says_what_it_takes(
        self, store: Store
    ) -> None:
        learn(store)
        measure(store, conv(), {"a": by(FIRST, 2e-3)})
        drift(store)
        suspect = only_suspect(store)
        assert store.boards.remeasured(suspect.id, by(SECOND, 1e-3))
        assert not store.boards.remeasured(suspect.id, by("board-3", 3e-3))
        assert store.record(suspect.id).measurement.seconds == 1e-3

    def test_a_record_is_suspect_again_when_the_board_that_measured_it_again_drifts(
        self, store: Store
    ) -> None:
        learn(store, FIRST, SECOND, "board-3")
        measure(store, conv(), {"a": by(FIRST, 2e-3), "b": by(FIRST, 3e-3)})
        drift(store)
        # Newer records: the ids of those that are measured again tell nothing.
        measure(store, conv(28), {"newer": by("board-3", 1e-3)})
        refer(store, 1.0, board=SECOND)
        first, second = store.boards.suspects(BOARD, A76, COMPILER, 10)
        store.boards.remeasured(first.id, by(SECOND, 1e-3))
        refer(store, 1.0, board=SECOND)
        store.boards.remeasured(second.id, by(SECOND, 1e-3))
        drift(store, SECOND)
        assert suspect_names(store) == {"b"}

    def test_what_is_served_is_measured_again_first_and_then_the_fastest(
        self, store: Store
    ) -> None:
        learn(store)
        failed = replace(failure(), board=FIRST, board_class=BOARD)
        times = {"failed": failed, "slow": by(FIRST, 9e-3), "fast": by(FIRST, 1e-3)}
        measure(store, conv(), times)
        serve(store, conv(28), seconds=5e-3)
        measure(store, conv(14), {"elsewhere": by(FIRST, 1e-3)}, target=A53)
        drift(store)
        found = store.boards.suspects(BOARD, A76, COMPILER, 10)
        assert [one.measurement.seconds for one in found] == [5e-3, 1e-3, 9e-3, None]
        assert store.boards.suspects(BOARD, A76, COMPILER, 2) == found[:2]
        assert store.boards.suspects(BOARD, A76, "another", 10) == ()
        assert store.boards.suspect_targets(BOARD, COMPILER) == (A53, A76)
        assert store.boards.suspect_targets("rpi5", COMPILER) == ()

    def test_a_record_that_is_not_there_cannot_be_measured_again(self, store: Store) -> None:
        with pytest.raises(DatabaseError, match="no record 99"):
            store.boards.remeasured(99, by(FIRST, 1e-3))

    def test_a_module_that_was_measured_by_a_board_in_quarantine_is_new_to_nobody(
        self, store: Store
    ) -> None:
        learn(store)
        drift(store)
        measure(store, conv(), {"a": by(FIRST, 1e-3)})
        claimed = claim_new_round(store, start_job(store))
        again = [Candidate(TRACE, name, Source.SEARCH) for name in ("a", "b")]
        slots = store.store_candidates(claimed.id, claimed.epoch, again)
        assert [one.candidate.module_hash for one in slots] == ["b"]


class DriftContract(
    DueContract, QuarantineContract, SuspectContract, ServedContract, RemeasuredContract
):
    """All of the above."""
