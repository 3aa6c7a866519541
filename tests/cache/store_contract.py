"""What a store does with models, records and look-ups, whichever database is behind it."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterator

import pytest
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
    start_job,
    success,
)

from tunebook.cache.errors import DatabaseError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.misses import MissReason
from tunebook.cache.records import ErrorClass
from tunebook.cache.store import BoardPeak, Store


class StoreFixtures:
    """A subclass says where the database is by a fixture `url`."""

    @pytest.fixture
    def store(self, url: str) -> Iterator[Store]:
        """One whose leases do not die where this machine stands still for a while."""
        with Store.open(url, lease_seconds=600) as store:
            yield store


class ModelContract(StoreFixtures):
    def test_a_model_is_found_again_as_it_was_saved(self, store: Store) -> None:
        model = model_of([conv(56), conv(28)])
        store.save_model(model)
        assert store.find_model(model.digest, model.shapes, A76, COMPILER) == model

    def test_saving_a_model_twice_gives_the_same_id(self, store: Store) -> None:
        model = model_of([conv()])
        assert store.save_model(model) == store.save_model(model)

    @pytest.mark.parametrize("part", ["digest", "shapes", "target", "compiler"])
    def test_a_model_is_not_found_by_another(self, store: Store, part: str) -> None:
        model = model_of([conv()])
        store.save_model(model)
        other = dataclasses.replace(model, **{part: A53})
        assert store.find_model(other.digest, other.shapes, other.target, other.compiler) is None

    def test_the_model_with_the_latest_choices_is_found(self, store: Store) -> None:
        store.save_model(model_of([conv()]))
        changed = model_of([conv()], choices="layout=NHWC")
        store.save_model(changed)
        assert store.find_model(changed.digest, changed.shapes, A76, COMPILER) == changed

    def test_a_model_that_is_saved_again_has_the_latest_choices(self, store: Store) -> None:
        first, second = model_of([conv()]), model_of([conv()], choices="layout=NHWC")
        for model in (first, second, first, first):
            store.save_model(model)
        assert store.find_model(first.digest, first.shapes, A76, COMPILER) == first

    def test_a_model_that_is_split_otherwise_has_its_new_tasks(self, store: Store) -> None:
        first = model_of([conv(56), conv(28)])
        second = dataclasses.replace(first, tasks=model_of([conv(28), conv(14)]).tasks)
        assert store.save_model(first) == store.save_model(second)
        assert store.find_model(first.digest, first.shapes, A76, COMPILER) == second

    def test_a_workload_comes_back_as_it_was(self, store: Store) -> None:
        workload = dataclasses.replace(conv(), tir='{"µ": 1}' * 1000)
        store.save_model(model_of([workload]))
        assert store.workload(workload.key) == workload

    @pytest.mark.parametrize(
        "stored", [b"no zlib", zlib.compress(b"\xff\xfe"), zlib.compress(b"half")[:-4], b""]
    )
    def test_a_damaged_program_names_its_workload_and_what_to_do(
        self, store: Store, url: str, stored: bytes
    ) -> None:
        model = model_of([conv()])
        store.save_model(model)
        run_sql(url, "UPDATE workloads SET tir = :stored", stored=stored)
        key = conv().key
        with pytest.raises(DatabaseError) as raised:
            store.workload(key)
        assert str(raised.value) == (
            f"the stored program of the workload {key.op} {key.hash} is damaged; restore the "
            "database from a backup, or split its model again with another --db"
        )
        with pytest.raises(DatabaseError, match="is damaged"):
            store.find_model(model.digest, model.shapes, A76, COMPILER)

    def test_an_unknown_workload_is_an_error(self, store: Store) -> None:
        with pytest.raises(DatabaseError, match="not stored"):
            store.workload(conv().key)


class LookupContract(StoreFixtures):
    def test_a_verified_schedule_is_served_whole(self, store: Store) -> None:
        key = serve(store, conv(), seconds=2e-3)
        answer = store.lookup([key])
        (record,) = store.records(key)
        schedule = answer.hits[key]
        assert (schedule.trace, schedule.seconds) == (record.candidate.trace, 2e-3)
        assert (schedule.record_id, schedule.module_hash) == (
            record.id,
            record.candidate.module_hash,
        )
        assert answer.misses == ()

    @pytest.mark.parametrize("part", [field.name for field in dataclasses.fields(ScheduleKey)])
    def test_a_key_that_differs_in_one_part_misses(self, store: Store, part: str) -> None:
        key = serve(store, conv())
        other = dataclasses.replace(key, **{part: getattr(key, part) + "x"})
        answer = store.lookup([other])
        assert answer.hits == {}
        assert [miss.key for miss in answer.misses] == [other]

    def test_two_targets_are_never_served_each_others_schedules(self, store: Store) -> None:
        fast = serve(store, conv(), target=A76, seconds=1e-3)
        slow = serve(store, conv(), target=A53, seconds=9e-3)
        hits = store.lookup([fast, slow]).hits
        assert (hits[fast].seconds, hits[slow].seconds) == (1e-3, 9e-3)
        assert hits[fast].key.target == A76
        assert hits[slow].key.target == A53

    def test_a_key_is_answered_once_however_often_it_is_asked(self, store: Store) -> None:
        known, unknown = serve(store, conv(56)), conv(28).key.on(A76)
        answer = store.lookup([known, unknown, known, unknown])
        assert list(answer.hits) == [known]
        assert [miss.key for miss in answer.misses] == [unknown]

    def test_many_keys_are_answered_at_once(self, store: Store) -> None:
        keys = [conv(size).key.on(A76) for size in range(1, 502)]
        stored = serve(store, conv(450))
        answer = store.lookup(keys)
        assert list(answer.hits) == [stored]
        assert len(answer.misses) == 500

    def test_an_unverified_record_is_not_served(self, store: Store) -> None:
        measure(store, conv(), {"a": success(1e-3)})
        assert store.lookup([conv().key.on(A76)]).hits == {}

    def test_the_fastest_verified_record_is_served(self, store: Store) -> None:
        ids = measure(
            store, conv(), {"slow": success(3e-3), "fast": success(1e-3), "new": success(5e-4)}
        )
        for name in ("fast", "slow"):
            store.mark_verified(ids[name])
        assert store.lookup([conv().key.on(A76)]).hits[conv().key.on(A76)].module_hash == "fast"

    def test_the_next_best_is_served_when_the_best_turns_out_wrong(self, store: Store) -> None:
        key = conv().key.on(A76)
        ids = measure(store, conv(), {"slow": success(3e-3), "fast": success(1e-3)})
        for record in ids.values():
            store.mark_verified(record)
        store.mark_failed(ids["fast"], ErrorClass.WRONG_OUTPUT, "differs by 0.5")
        assert store.lookup([key]).hits[key].module_hash == "slow"

    @pytest.mark.parametrize("error", list(ErrorClass))
    def test_a_failure_of_any_class_is_never_served(self, store: Store, error: ErrorClass) -> None:
        ids = measure(store, conv(), {"a": failure(error)})
        store.mark_verified(ids["a"])
        assert store.lookup([conv().key.on(A76)]).hits == {}

    def test_a_record_that_failed_after_it_was_verified_is_not_served(self, store: Store) -> None:
        key = serve(store, conv())
        (record,) = store.records(key)
        store.mark_failed(record.id, ErrorClass.IMPLAUSIBLE, "0 s")
        store.mark_verified(record.id)
        assert store.lookup([key]).hits == {}

    def test_an_emulated_timing_is_only_served_by_name(self, store: Store) -> None:
        key = serve(store, conv(), emulated=True)
        assert store.lookup([key]).hits == {}
        assert store.lookup([key], accept_emulated=True).hits[key].emulated

    def test_a_real_board_is_preferred_over_a_faster_emulated_one(self, store: Store) -> None:
        serve(store, conv(), emulated=True, seconds=1e-6)
        key = serve(store, conv(), emulated=False, seconds=1e-3)
        assert store.lookup([key], accept_emulated=True).hits[key].seconds == 1e-3

    def test_a_trace_put_in_by_hand_is_refused_by_name(self, store: Store, url: str) -> None:
        key = serve(store, conv())
        run_sql(url, "UPDATE records SET trace = :trace", trace=EVIL_TRACE)
        (miss,) = store.lookup([key]).misses
        assert miss.reason is MissReason.UNVERIFIED
        assert "pragma_import_llvm" in miss.explanation

    def test_the_next_best_is_served_in_place_of_a_refused_trace(
        self, store: Store, url: str
    ) -> None:
        key = conv().key.on(A76)
        ids = measure(store, conv(), {"slow": success(3e-3), "fast": success(1e-3)})
        for record in ids.values():
            store.mark_verified(record)
        statement = "UPDATE records SET trace = :trace WHERE id = :id"
        run_sql(url, statement, trace=EVIL_TRACE, id=ids["fast"])
        answer = store.lookup([key])
        served = answer.hits[key]
        assert (served.record_id, served.seconds) == (ids["slow"], 3e-3)
        (told,) = answer.passed_over
        assert told.startswith(f"record {ids['fast']} is refused: ")
        assert f"record {ids['slow']} of {key} is served instead" in told
        assert [one.record_id for one in store.served([key], emulated=False)] == [ids["fast"]]

    def test_a_refused_trace_is_not_chosen_while_there_is_another(
        self, store: Store, url: str
    ) -> None:
        ids = measure(store, conv(), {"slow": success(3e-3), "fast": success(1e-3)})
        statement = "UPDATE records SET trace = :trace WHERE id = :id"
        run_sql(url, statement, trace=EVIL_TRACE, id=ids["fast"])
        for record in ids.values():
            store.mark_verified(record)
        assert store.task_states(start_job(store))[0].served_seconds == 3e-3

    def test_an_emulated_timing_does_not_stand_in_for_a_refused_trace(
        self, store: Store, url: str
    ) -> None:
        key = serve(store, conv(), emulated=True)
        serve(store, conv(), emulated=False)
        statement = "UPDATE records SET trace = :trace WHERE emulated = :emulated"
        run_sql(url, statement, trace=EVIL_TRACE, emulated=False)
        assert store.lookup([key]).hits == {}
        assert store.lookup([key], accept_emulated=True).hits[key].emulated


class RecordContract(StoreFixtures):
    def test_a_record_keeps_everything_that_was_measured(self, store: Store) -> None:
        measurement = dataclasses.replace(
            success(1e-3, board_seconds=0.25),
            run_seconds=(1e-3, 3e-3, 2e-3),
            board_state={"governor": "performance", "celsius": 61.5},
            features=b"\x00\x00\x80?" * 8,
            feature_columns=4,
        )
        measure(store, conv(), {"a": measurement})
        (record,) = store.records(conv().key.on(A76))
        assert record.measurement == measurement
        assert record.measurement.seconds == 2e-3
        assert (record.key, record.verified) == (conv().key.on(A76), False)

    def test_failures_are_records_too(self, store: Store) -> None:
        measure(store, conv(), {"a": failure(ErrorClass.RUN_TIMEOUT), "b": success(1.0)})
        first, second = store.records(conv().key.on(A76))
        assert first.measurement.error is ErrorClass.RUN_TIMEOUT
        assert first.measurement.error_text == "it was run-timeout"
        assert second.measurement.error is None

    def test_an_error_text_of_any_bytes_is_stored(self, store: Store) -> None:
        garbled = dataclasses.replace(failure(), error_text="cr\0ash \udcff" + "x" * 10_000)
        measure(store, conv(), {"a": garbled})
        (record,) = store.records(conv().key.on(A76))
        assert record.measurement.error_text.startswith("cr?ash ?xxx")
        assert len(record.measurement.error_text) <= 4000

    def test_a_failure_found_later_keeps_its_class_and_text(self, store: Store) -> None:
        ids = measure(store, conv(), {"a": success(1e-3)})
        store.mark_failed(ids["a"], ErrorClass.WRONG_OUTPUT, "differs by 0.5")
        (record,) = store.records(conv().key.on(A76))
        assert record.measurement.error is ErrorClass.WRONG_OUTPUT
        assert record.measurement.error_text == "differs by 0.5"
        assert record.measurement.seconds is None

    def test_marking_an_unknown_record_is_an_error(self, store: Store) -> None:
        with pytest.raises(DatabaseError, match="no record 7"):
            store.mark_verified(7)

    def test_only_faster_records_than_the_served_wait_for_verification(self, store: Store) -> None:
        names = {"slow": success(3e-3), "served": success(2e-3), "fast": success(1e-3)}
        ids = measure(store, conv(), {**names, "failed": failure(), "fastest": success(5e-4)})
        key = conv().key.on(A76)
        store.mark_verified(ids["served"])
        waiting = [record.candidate.module_hash for record in store.unverified_best(key)]
        assert waiting == ["fastest", "fast"]

    def test_records_of_one_kind_of_board_wait_apart_from_the_other(self, store: Store) -> None:
        measure(store, conv(), {"a": success(1e-6, emulated=True)}, emulated=True)
        measure(store, conv(), {"b": success(1e-3)})
        key = conv().key.on(A76)
        waiting = store.unverified_best(key, emulated=False)
        assert [record.candidate.module_hash for record in waiting] == ["b"]

    def test_training_records_are_the_newest_with_features_of_the_target(
        self, store: Store
    ) -> None:
        featured = dataclasses.replace(success(1e-3), features=b"\0" * 4, feature_columns=1)
        failed = dataclasses.replace(failure(), features=b"\0" * 4, feature_columns=1)
        measure(store, conv(56), {"a": featured, "none": success(1.0)})
        measure(store, conv(28), {"b": failed})
        measure(store, conv(56), {"elsewhere": featured}, target=A53)
        measure(store, conv(14), {"c": featured})
        found = store.training_records(A76, COMPILER, 2)
        assert [record.candidate.module_hash for record in found] == ["c", "b"]
        assert store.training_records(A76, "tvm-0.26.0+llvm-22", 2) == []


class BoardContract(StoreFixtures):
    def test_the_peak_of_a_board_class_is_that_of_its_target(self, store: Store) -> None:
        store.save_board_peak("rpi4", A76, BoardPeak(1e10, 4e9))
        store.save_board_peak("rpi4", A76, BoardPeak(2e10, 5e9))
        assert store.board_peak("rpi4", A76) == BoardPeak(2e10, 5e9)
        assert store.board_peak("rpi4", A53) is None
        assert store.board_peak("rpi5", A76) is None


class StoreContract(ModelContract, LookupContract, RecordContract, BoardContract):
    """All of the above."""
