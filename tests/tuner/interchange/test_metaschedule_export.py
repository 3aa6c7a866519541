"""What stock TVM reads of an export, and what comes back of it."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tvm
from interchange_samples import PROGRAMS, lines_of, stock_database
from near_programs import A72, A76, random_traces, row_sums

from tunebook.cache.errors import InterchangeError
from tunebook.cache.exchange.interchange import RECORDS, WORKLOADS
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.records import Candidate, ErrorClass, Measurement, Model, Task, Workload
from tunebook.cache.store import Store
from tunebook.cache.stored.imported_records import ImportedRecord
from tunebook.cache.work import RoundProposal
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.interchange.foreign_programs import ForeignPrograms
from tunebook.tuner.interchange.foreign_workload import foreign_workload
from tunebook.tuner.interchange.metaschedule_export import LeftOut, export_database
from tunebook.tuner.interchange.metaschedule_import import import_database
from tunebook.tuner.llvm_targets import resolve_target, tvm_target
from tunebook.tuner.traces.replay import replay

COMPILER = "tvm-0.27.0+llvm-22"
TIMES: tuple[float | None, ...] = (3e-3, 1e-3, None)  # None: it failed


@pytest.fixture(scope="module")
def workloads() -> tuple[Workload, ...]:
    return tuple(map(foreign_workload, PROGRAMS))


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory, workloads: tuple[Workload, ...]) -> Path:
    """Three trials of each program on two targets, and one of an emulated board."""
    path = tmp_path_factory.mktemp("tuned") / "tunebook.db"
    with Store.open(str(path)) as store:
        for target in (A76, A72):
            for workload in workloads:
                traces = random_traces(workload.tir, target, len(TIMES))
                trials = [(trace, measured(one)) for trace, one in zip(traces, TIMES, strict=True)]
                tune(store, workload, target, trials)
        (trace,) = random_traces(PROGRAMS[1], A76, 1, seed=5)
        emulated = dataclasses.replace(measured(1e-9), emulated=True)
        tune(store, workloads[1], A76, [(trace, emulated)])
    return path


@pytest.fixture
def tuned(database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.open(str(shutil.copy(database, tmp_path_factory.mktemp("copy")))) as store:
        yield store


def measured(seconds: float | None) -> Measurement:
    if seconds is None:
        return Measurement(error=ErrorClass.WRONG_OUTPUT, error_text="it was wrong")
    return Measurement(run_seconds=(seconds, seconds * 1.25, seconds * 0.7), board="a board")


def tune(
    store: Store, workload: Workload, target: str, trials: list[tuple[str, Measurement]]
) -> None:
    """Stores trials the way a worker does."""
    text = str(resolve_target(target))
    model = Model(workload.key.hash, "", text, COMPILER, "", (Task(workload, 1),))
    emulated = trials[0][1].emulated
    job = store.submit_job(
        store.save_model(model), "boards", trials=None, more=len(trials), emulated=emulated
    )
    (task,) = store.task_states(job)
    store.propose_rounds(job, [RoundProposal(task.id, len(trials), 1.0)])
    claimed = store.claim_round("a test", job)
    assert claimed is not None
    module = tvm.ir.load_json(workload.tir)
    candidates = [Candidate(one, module_hash(replay(module, one).mod)) for one, _ in trials]
    slots = store.store_candidates(claimed.id, claimed.epoch, candidates)
    for slot, (_, measurement) in zip(slots, trials, strict=True):
        store.store_result(claimed.id, claimed.epoch, slot.number, measurement)
    store.finish_round(claimed.id, claimed.epoch)
    store.finish_job(job, "done")


def records_by_key(store: Store) -> dict[ScheduleKey, list[Any]]:
    """What an exchange keeps of the records of real boards: traces, times, and modules of those
    that did not fail."""
    found: dict[ScheduleKey, list[Any]] = {}
    for one in store.interchange.exported_records(COMPILER):
        module = one.module_hash if one.run_seconds else "failed"
        found.setdefault(one.key, []).append((one.trace, one.run_seconds, module))
    return {key: sorted(records) for key, records in found.items()}


def test_stock_tvm_reads_it_and_finds_the_fastest(
    tuned: Store, foreign: ForeignPrograms, tmp_path: Path, workloads: tuple[Workload, ...]
) -> None:
    report = export_database(tmp_path / "out", tuned, foreign, target=resolve_target(A76))
    assert (report.workloads, report.records, report.failures) == (2, 6, 2)
    assert report.targets == (str(resolve_target(A76)),)
    database = stock_database(tmp_path / "out")
    assert len(database) == 6
    for workload in workloads:
        module = tvm.ir.load_json(workload.tir)
        found = database.query_tuning_record(module, tvm_target(A76), "main")
        assert [float(one) for one in found.run_secs] == [1e-3, 1e-3 * 1.25, 1e-3 * 0.7]
        assert str(found.target) == str(tvm_target(A76))
        assert [str(one.dtype) for one in found.args_info] == ["float32"] * len(found.args_info)
        key = workload.key.on(str(resolve_target(A76)))
        (fastest,) = (
            one.candidate.module_hash
            for one in tuned.records(key)
            if one.measurement.run_seconds[:1] == (1e-3,)
        )
        assert module_hash(found.as_measure_candidate().sch.mod) == fastest


def test_a_failure_is_written_as_tvm_writes_it(
    tuned: Store, foreign: ForeignPrograms, tmp_path: Path
) -> None:
    export_database(tmp_path, tuned, foreign)
    seconds = [record[1] for _, record in lines_of(tmp_path / RECORDS)]
    assert seconds.count([1e10]) == 4


def test_importing_an_export_gives_the_same_records(
    tuned: Store, foreign: ForeignPrograms, tmp_path: Path, workloads: tuple[Workload, ...]
) -> None:
    export_database(tmp_path / "out", tuned, foreign)
    with Store.open(str(tmp_path / "other.db")) as other:
        report = import_database(tmp_path / "out", other, foreign)
        assert (report.records, report.new_records, report.skipped) == (12, 12, ())
        assert records_by_key(other) == records_by_key(tuned)
        for workload in workloads:
            assert other.workload(workload.key).tir == workload.tir


def test_importing_an_export_where_it_came_from_changes_nothing(
    tuned: Store, foreign: ForeignPrograms, tmp_path: Path
) -> None:
    before = records_by_key(tuned)
    export_database(tmp_path / "out", tuned, foreign)
    assert import_database(tmp_path / "out", tuned, foreign).new_records == 0
    assert records_by_key(tuned) == before


def test_what_stock_tvm_could_not_tell_apart_or_read_is_left_out(
    tuned: Store, foreign: ForeignPrograms, tmp_path: Path, workloads: tuple[Workload, ...]
) -> None:
    target = str(resolve_target(A76))
    old = dataclasses.replace(workloads[0].key, compiler="tvm-0.26.0+llvm-21")
    tuned.interchange.import_workloads([dataclasses.replace(workloads[0], key=old)])
    (trace,) = random_traces(PROGRAMS[0], A76, 1, seed=9)
    evil = '[[["Annotate", ["b0", "x"], ["pragma_import_c"], []]], []]'
    tuned.interchange.import_records(
        [
            ImportedRecord(old.on(target), trace, (1.0,)),
            ImportedRecord(workloads[0].key.on(target), trace, (1.0,)),
            ImportedRecord(workloads[1].key.on(target), trace, (1.0,)),
            ImportedRecord(workloads[1].key.on(target), evil, (1.0,)),
        ]
    )
    report = export_database(tmp_path, tuned, foreign)
    assert report.records == 13
    assert len(stock_database(tmp_path)) == 13
    assert report.left_out == (
        LeftOut(1, "workloads", f"of {old.compiler}: this is {COMPILER}, which cannot read them"),
        LeftOut(1, "records", "of emulated boards, whose times stock TVM would take for real ones"),
        LeftOut(1, "records", "whose trace holds what is not on the list"),
        LeftOut(1, "records", "whose trace does not replay"),
    )


def test_a_trace_out_of_another_model_is_written_with_this_programs_names(
    tuned: Store, foreign: ForeignPrograms, tmp_path: Path, workloads: tuple[Workload, ...]
) -> None:
    """Equal programs may have blocks of other names (`lv7_red`); stock TVM goes by them."""
    (trace,) = random_traces(PROGRAMS[1], A76, 1, seed=9)
    key = workloads[1].key.on(str(resolve_target(A76)))
    renamed = trace.replace("T_matmul_NN", "lv7_NN")
    assert renamed != trace
    tuned.interchange.import_records([ImportedRecord(key, renamed, (1.0,), "module")])
    report = export_database(tmp_path, tuned, foreign)
    assert (report.records, len(stock_database(tmp_path))) == (13, 13)
    assert "lv7" not in (tmp_path / RECORDS).read_text()


def test_a_model_that_takes_an_imported_program_over_gives_its_names_to_what_was_imported(
    store: Store, foreign: ForeignPrograms, tmp_path: Path
) -> None:
    target = str(resolve_target(A76))
    strangers, own = (row_sums(64, name) for name in ("lv7", "lv294"))
    (key,) = store.interchange.import_workloads([foreign_workload(strangers)])
    (trace,) = random_traces(strangers, A76, 1)
    module = module_hash(replay(tvm.ir.load_json(strangers), trace).mod)
    store.interchange.import_records([ImportedRecord(key.on(target), trace, (1.0,), module)])
    task = Task(foreign_workload(own), 1)
    store.save_model(Model(key.hash, "", target, COMPILER, "", (task,)))
    assert export_database(tmp_path, store, foreign).records == 1
    found = stock_database(tmp_path).query_tuning_record(
        tvm.ir.load_json(own), tvm_target(A76), "main"
    )
    assert module_hash(found.as_measure_candidate().sch.mod) == module


def test_emulated_boards_records_are_written_where_they_are_asked_for(
    tuned: Store, foreign: ForeignPrograms, tmp_path: Path
) -> None:
    report = export_database(tmp_path, tuned, foreign, emulated=True)
    assert (report.records, report.left_out) == (13, ())


@pytest.mark.parametrize("name", [WORKLOADS, RECORDS])
def test_nothing_is_overwritten(
    tuned: Store, foreign: ForeignPrograms, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(InterchangeError, match=f"{name} is there already; give another folder"):
        export_database(tmp_path, tuned, foreign)
    assert [(one.name, one.read_text()) for one in tmp_path.glob("*database*")] == [(name, "mine")]


def test_an_export_that_is_stopped_leaves_no_file(
    tuned: Store, foreign: ForeignPrograms, tmp_path: Path
) -> None:
    def stop(_: object) -> None:
        assert any((tmp_path / "out").iterdir())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_database(tmp_path / "out", tuned, foreign, tell=stop)
    assert list((tmp_path / "out").iterdir()) == []
