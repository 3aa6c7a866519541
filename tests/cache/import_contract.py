"""Records that came from elsewhere, and records as others may read them, on every database."""

from __future__ import annotations

import dataclasses

from cache_samples import (
    A53,
    A76,
    COMPILER,
    TRACE,
    candidates,
    claim_new_round,
    conv,
    failure,
    measure,
    model_of,
    serve,
    start_job,
    success,
)

from tunebook.cache.keys import WorkloadKey
from tunebook.cache.misses import MissReason
from tunebook.cache.records import ErrorClass, Source, Workload
from tunebook.cache.store import Store
from tunebook.cache.stored.imported_records import FAILURE_TEXT, ImportedRecord, trace_hash

KEY = conv().key.on(A76)


def traces(count: int) -> list[str]:
    return [TRACE + " " * number for number in range(count)]


def guessed() -> Workload:
    """The convolution as an import has it: its op read off the program, which is a stranger's."""
    key = dataclasses.replace(conv().key, op="guessed")
    return dataclasses.replace(conv(), key=key, tir="a stranger's")


class ImportContract:
    def test_an_imported_record_is_found_as_it_was_and_never_served(self, store: Store) -> None:
        store.interchange.import_workloads([conv()])
        assert (
            store.interchange.import_records([ImportedRecord(KEY, TRACE, (3e-3, 1e-3, 2e-3))]) == 1
        )
        (record,) = store.records(KEY)
        assert record.candidate.source is Source.IMPORT
        assert record.measurement.seconds == 2e-3
        assert not record.verified
        answer = store.lookup([KEY])
        assert answer.hits == {}
        assert [miss.reason for miss in answer.misses] == [MissReason.UNVERIFIED]

    def test_an_imported_record_waits_for_no_verification(self, store: Store) -> None:
        store.interchange.import_workloads([conv()])
        store.interchange.import_records([ImportedRecord(KEY, TRACE, (1e-3,))])
        assert store.unverified_best(KEY) == []

    def test_an_imported_failure_is_a_failure(self, store: Store) -> None:
        store.interchange.import_workloads([conv()])
        store.interchange.import_records([ImportedRecord(KEY, TRACE, ())])
        (record,) = store.records(KEY)
        assert record.measurement.error is ErrorClass.RUN
        assert record.measurement.error_text == FAILURE_TEXT
        assert record.measurement.seconds is None

    def test_importing_twice_changes_nothing(self, store: Store) -> None:
        batch = [
            ImportedRecord(KEY, trace, (1e-3,), module)
            for trace, module in zip(traces(3), ("a", None, "c"), strict=True)
        ]
        store.interchange.import_workloads([conv()])
        assert store.interchange.import_records(batch) == 3
        before = store.records(KEY)
        store.interchange.import_workloads([conv()])
        assert store.interchange.import_records(batch) == 0
        assert store.records(KEY) == before

    def test_of_equal_records_in_one_import_the_first_stays(self, store: Store) -> None:
        store.interchange.import_workloads([conv()])
        batch = [ImportedRecord(KEY, TRACE, ()), ImportedRecord(KEY, TRACE, (1e-3,))]
        assert store.interchange.import_records(batch) == 1
        assert store.records(KEY)[0].measurement.error is ErrorClass.RUN

    def test_many_records_are_imported_at_once(self, store: Store) -> None:
        store.interchange.import_workloads([conv()])
        batch = [ImportedRecord(KEY, trace, (1e-3,)) for trace in traces(1500)]
        assert store.interchange.import_records(batch) == 1500
        assert len(store.records(KEY)) == 1500

    def test_targets_are_told_apart(self, store: Store) -> None:
        store.interchange.import_workloads([conv()])
        other = conv().key.on(A53)
        store.interchange.import_records(
            [ImportedRecord(key, TRACE, (1e-3,)) for key in (KEY, other)]
        )
        assert [len(store.records(key)) for key in (KEY, other)] == [1, 1]

    def test_a_trace_that_is_replayed_later_gets_its_modules_hash(self, store: Store) -> None:
        store.interchange.import_workloads([conv()])
        record = ImportedRecord(KEY, TRACE, (1e-3,))
        store.interchange.import_records([record])
        assert store.records(KEY)[0].candidate.module_hash == trace_hash(TRACE)
        assert (
            store.interchange.import_records([dataclasses.replace(record, module_hash="module")])
            == 0
        )
        (stored,) = store.records(KEY)
        assert stored.candidate.module_hash == "module"

    def test_an_unreplayed_trace_of_a_module_that_is_stored_goes(self, store: Store) -> None:
        measure(store, conv(), {"module": success(1e-3)})
        record = ImportedRecord(KEY, traces(2)[1], (5e-3,))
        store.interchange.import_records([record])
        store.interchange.import_records([dataclasses.replace(record, module_hash="module")])
        (stored,) = store.records(KEY)
        assert (stored.candidate.source, stored.measurement.seconds) == (Source.SEARCH, 1e-3)

    def test_what_was_measured_here_stays_as_it_is(self, store: Store) -> None:
        key = serve(store, conv(), seconds=2e-3)
        before = store.records(key)
        module = before[0].candidate.module_hash
        assert store.interchange.import_records([ImportedRecord(key, TRACE, (1e-9,), module)]) == 0
        assert store.records(key) == before
        assert store.lookup([key]).hits[key].seconds == 2e-3

    def test_measuring_the_same_module_here_takes_the_imports_place(self, store: Store) -> None:
        store.interchange.import_workloads([conv()])
        store.interchange.import_records([ImportedRecord(KEY, TRACE, (1e-9,), "module")])
        measure(store, conv(), {"module": success(2e-3)})
        (record,) = store.records(KEY)
        assert (record.candidate.source, record.measurement.seconds) == (Source.SEARCH, 2e-3)

    def test_measuring_an_unreplayed_trace_here_takes_the_imports_place(self, store: Store) -> None:
        """Its module's hash was not known, so the two have nothing but the trace in common."""
        store.interchange.import_workloads([conv()])
        kept, measured = traces(2)
        other = conv().key.on(A53)
        store.interchange.import_records(
            [
                ImportedRecord(KEY, kept, (1e-9,)),
                ImportedRecord(KEY, measured, (1e-9,)),
                ImportedRecord(other, measured, (1e-9,)),
            ]
        )
        measure(store, conv(), {"module": success(2e-3)}, trace=measured)
        assert [(one.candidate.trace, one.candidate.source) for one in store.records(KEY)] == [
            (kept, Source.IMPORT),
            (measured, Source.SEARCH),
        ]
        assert len(store.records(other)) == 1

    def test_an_emulated_board_leaves_an_unreplayed_trace_as_it_is(self, store: Store) -> None:
        store.interchange.import_workloads([conv()])
        store.interchange.import_records([ImportedRecord(KEY, TRACE, (1e-9,))])
        measure(store, conv(), {"module": success(2e-3, emulated=True)}, emulated=True)
        assert [one.measurement.emulated for one in store.records(KEY)] == [False, True]

    def test_imported_times_are_no_progress_of_a_search(self, store: Store) -> None:
        job = start_job(store, conv())
        store.interchange.import_records([ImportedRecord(KEY, TRACE, (1e-9,), "imported")])
        claimed = claim_new_round(store, job)
        (slot,) = store.store_candidates(claimed.id, claimed.epoch, candidates("module"))
        store.store_result(claimed.id, claimed.epoch, slot.number, success(2e-3))
        store.finish_round(claimed.id, claimed.epoch)
        (task,) = store.task_states(job)
        assert (task.best_seconds, task.history) == (2e-3, (2e-3,))

    def test_traces_whose_modules_are_known_are_told(self, store: Store) -> None:
        store.interchange.import_workloads([conv()])
        replayed, unreplayed = traces(2)
        store.interchange.import_records(
            [
                ImportedRecord(KEY, replayed, (1e-3,), "module"),
                ImportedRecord(KEY, unreplayed, (1e-3,)),
            ]
        )
        assert store.interchange.replayed_traces(KEY) == {trace_hash(replayed)}
        assert store.interchange.replayed_traces(conv().key.on(A53)) == frozenset()

    def test_a_known_program_keeps_its_op(self, store: Store) -> None:
        store.save_model(model_of([conv()]))
        assert store.interchange.import_workloads([guessed()]) == (conv().key,)
        assert store.workload(conv().key) == conv()

    def test_the_keys_of_imported_programs_come_in_order(self, store: Store) -> None:
        workloads = [conv(size) for size in (56, 7, 28)]
        assert store.interchange.import_workloads(workloads) == tuple(one.key for one in workloads)

    def test_a_model_gives_an_imported_program_its_op_and_its_own_text(self, store: Store) -> None:
        """Equal hashes do not prove that the stranger's text is the model's program."""
        (key,) = store.interchange.import_workloads([guessed()])
        store.interchange.import_records([ImportedRecord(key.on(A76), TRACE, (1e-3,))])
        store.save_model(model_of([conv()]))
        assert store.workload(conv().key) == conv()
        assert len(store.records(KEY)) == 1
        assert store.records(key.on(A76)) == []

    def test_a_models_program_stays_as_its_model_has_it(self, store: Store) -> None:
        """Two models may name one program's operators differently."""
        store.save_model(model_of([guessed()], choices="layout=NHWC"))
        store.save_model(model_of([conv()]))
        assert store.workload(guessed().key) == guessed()
        assert store.workload(conv().key) == conv()

    def test_a_program_that_another_compiler_has_is_another_workload(self, store: Store) -> None:
        store.save_model(model_of([conv()]))
        other = dataclasses.replace(guessed().key, compiler="tvm-0.28.0+llvm-23")
        assert store.interchange.import_workloads([dataclasses.replace(guessed(), key=other)]) == (
            other,
        )


class ExportContract:
    def test_records_come_page_by_page_in_order(self, store: Store) -> None:
        measure(store, conv(), {"a": success(1e-3), "b": failure(), "c": success(3e-3)})
        first = store.interchange.exported_records(COMPILER, limit=2)
        rest = store.interchange.exported_records(COMPILER, after=first[-1].id, limit=2)
        assert [one.module_hash for one in first + rest] == ["a", "b", "c"]
        assert [one.run_seconds for one in first + rest] == [(1e-3,) * 3, (), (3e-3,) * 3]
        assert {one.key for one in first + rest} == {KEY}
        assert store.interchange.exported_records(COMPILER, after=rest[-1].id) == ()

    def test_a_record_that_failed_when_it_was_verified_has_no_times(self, store: Store) -> None:
        ids = measure(store, conv(), {"a": success(1e-3)})
        store.mark_failed(ids["a"], ErrorClass.WRONG_OUTPUT, "it was wrong")
        (record,) = store.interchange.exported_records(COMPILER)
        assert record.run_seconds == ()

    def test_only_what_was_asked_for_is_exported(self, store: Store) -> None:
        measure(store, conv(), {"a76": success(1e-3)})
        measure(store, conv(), {"a53": success(1e-3)}, target=A53)
        emulated = success(1e-3, emulated=True)
        measure(store, conv(28), {"emulated": emulated}, emulated=True)
        old = WorkloadKey("conv2d", "f32[1] -> f32[1]", "tvm-0.26.0+llvm-21", "0" * 16)
        store.interchange.import_workloads([Workload(old, "tir", 1.0)])
        store.interchange.import_records([ImportedRecord(old.on(A76), TRACE, (1e-3,))])

        def exported(target: str | None = None, *, emulated: bool = False) -> list[str]:
            found = store.interchange.exported_records(COMPILER, target, emulated=emulated)
            return [one.module_hash for one in found]

        assert exported() == ["a76", "a53"]
        assert exported(A53) == ["a53"]
        assert exported(emulated=True) == ["a76", "a53", "emulated"]
        survey = store.interchange.export_survey(COMPILER)
        assert (survey.records, survey.emulated) == (2, 1)
        assert survey.other_compilers == {old.compiler: 1}
        assert store.interchange.export_survey(COMPILER, A53).other_compilers == {}


class InterchangeContract(ImportContract, ExportContract):
    """Both ways."""
