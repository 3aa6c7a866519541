"""MetaSchedule's files imported: what can be used goes in, once, and the rest is counted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tvm
from interchange_samples import (
    PROGRAMS,
    TARGETS,
    lines_of,
    stock_database,
    write_lines,
    write_stock_files,
)
from near_programs import A72, A76, random_traces
from tvm import te
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms

from tunebook.cache.errors import InterchangeError
from tunebook.cache.exchange.interchange import (
    RECORDS,
    WORKLOADS,
    parse_workload,
    read_lines,
    workload_line,
)
from tunebook.cache.exchange.skipped_lines import SkippedLines, SkipReason
from tunebook.cache.misses import MissReason
from tunebook.cache.records import ErrorClass, Record, Source
from tunebook.cache.store import Store
from tunebook.cache.stored.imported_records import is_replayed
from tunebook.cache.targets import Target
from tunebook.tuner.hashing import module_hash
from tunebook.tuner.interchange import metaschedule_import
from tunebook.tuner.interchange.fastest_traces import FastestTraces
from tunebook.tuner.interchange.foreign_programs import ForeignPrograms
from tunebook.tuner.interchange.metaschedule_export import export_database
from tunebook.tuner.interchange.metaschedule_import import ImportReport, import_database
from tunebook.tuner.llvm_targets import resolve_target, tvm_target
from tunebook.tuner.splitting.split import normalized
from tunebook.tuner.traces.replay import replay

EVIL = [["Annotate", ["b0", '"module asm \\".globl evil\\""'], ["pragma_import_llvm"], []]]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written")
    write_stock_files(folder)
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """A folder of files to import, and to change before."""
    return Path(shutil.copytree(written, tmp_path / "files"))


Importer = Callable[..., ImportReport]


@pytest.fixture
def imported(folder: Path, store: Store, foreign: ForeignPrograms) -> Importer:
    def run(target: Target | None = None) -> ImportReport:
        return import_database(folder, store, foreign, target=target)

    return run


def all_records(store: Store, report: ImportReport) -> list[Record]:
    exported = store.interchange.exported_records(report.compiler)
    keys = sorted({one.key for one in exported})
    return [record for key in keys for record in store.records(key)]


def told(skipped: tuple[SkippedLines, ...]) -> dict[SkipReason, tuple[int, ...]]:
    return {one.reason: one.lines for one in skipped}


class TestWhatGoesIn:
    def test_all_that_tvm_wrote_is_stored_and_nothing_served(
        self, imported: Importer, store: Store
    ) -> None:
        report = imported()
        assert (report.workloads, report.records, report.new_records) == (2, 16, 16)
        assert (report.failures, report.replayed, report.skipped) == (4, 12, ())
        assert report.targets == tuple(sorted(map(str, map(resolve_target, TARGETS))))
        records = all_records(store, report)
        assert {record.key.op for record in records} == {"conv2d+add+relu", "matmul"}
        assert {record.key.workload_hash for record in records} == {
            module_hash(tvm.ir.load_json(tir)) for tir in PROGRAMS
        }
        for key in {record.key for record in records}:
            own = [record for record in records if record.key == key]
            times = sorted(one.measurement.seconds or 0.0 for one in own)
            assert times == [0.0, 1e-3, 2e-3, 3e-3]
            assert {one.candidate.source for one in own} == {Source.IMPORT}
            assert not any(one.verified for one in own)
            failures = [one.measurement.error for one in own if one.measurement.error]
            assert failures == [ErrorClass.RUN]
        answer = store.lookup([record.key for record in records])
        assert answer.hits == {}
        assert {miss.reason for miss in answer.misses} == {MissReason.UNVERIFIED}

    def test_a_layout_that_was_rewritten_comes_in_and_goes_back(
        self, folder: Path, imported: Importer, store: Store, foreign: ForeignPrograms
    ) -> None:
        module = tvm.ir.load_json(PROGRAMS[1])
        schedule = Schedule(module)
        block = schedule.get_sblock("T_matmul_NN")
        schedule.transform_layout(block, ("read", 1), lambda i, j: (j // 4, i, j % 4))
        database = stock_database(folder)
        database.commit_tuning_record(
            ms.database.TuningRecord(
                schedule.trace, database.commit_workload(module), [5e-4], tvm_target(A76)
            )
        )
        report = imported()
        assert (report.new_records, report.replayed, report.skipped) == (17, 13, ())
        hashes = {one.candidate.module_hash for one in all_records(store, report)}
        assert module_hash(schedule.mod) in hashes
        export_database(folder / "out", store, foreign)
        assert len(stock_database(folder / "out")) == 17

    def test_a_second_import_changes_nothing(self, imported: Importer, store: Store) -> None:
        before = all_records(store, imported())
        again = imported()
        assert (again.records, again.new_records, again.replayed) == (16, 0, 0)
        assert all_records(store, again) == before

    def test_a_replayed_record_has_its_modules_hash(self, imported: Importer, store: Store) -> None:
        records = all_records(store, imported())
        replayed = [one for one in records if is_replayed(one.candidate.module_hash)]
        assert len(replayed) == 12
        for record in replayed:
            module = tvm.ir.load_json(store.workload(record.key.workload).tir)
            scheduled = replay(module, record.candidate.trace).mod
            assert module_hash(scheduled) == record.candidate.module_hash

    def test_only_the_fastest_of_each_are_replayed(
        self, imported: Importer, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(metaschedule_import, "REPLAYED", 2)
        report = imported()
        assert (report.new_records, report.replayed) == (16, 8)
        replayed = [
            one.measurement.seconds
            for one in all_records(store, report)
            if is_replayed(one.candidate.module_hash)
        ]
        assert sorted(replayed, key=str) == [1e-3] * 4 + [2e-3] * 4
        assert imported().new_records == 0

    def test_what_was_not_replayed_before_gets_its_modules_hash_later(
        self, imported: Importer, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(metaschedule_import, "REPLAYED", 1)
            imported()
        again = imported()
        assert (again.new_records, again.replayed) == (0, 8)
        hashes = [one.candidate.module_hash for one in all_records(store, again)]
        assert len(hashes) == 16
        assert sum(map(is_replayed, hashes)) == 12


class TestWhatStaysOut:
    def test_bad_lines_are_counted_and_the_rest_goes_in(
        self, folder: Path, imported: Importer, store: Store
    ) -> None:
        path = folder / RECORDS
        lines = lines_of(path)
        number, (trace, seconds, target, arguments) = lines[0]
        instructions, decisions = trace
        matmuls_trace = json.loads(random_traces(PROGRAMS[1], A76, 1)[0])
        unknown = [["BindEverything", [], [], []]]

        def line(**changed: Any) -> list[Any]:
            parts = {"trace": trace, "seconds": seconds, "target": target, **changed}
            return [parts.get("number", number), [*list(parts.values())[:3], arguments]]

        bad = [
            (line(seconds=["soon"]), SkipReason.BAD_LINE),
            (line(number=2), SkipReason.NO_WORKLOAD),
            (line(number=-1), SkipReason.NO_WORKLOAD),
            (line(target=None), SkipReason.BAD_TARGET),
            (line(target={**target, "mcpu": "cortex-nope"}), SkipReason.BAD_TARGET),
            (line(target={**target, "kind": "cuda"}), SkipReason.BAD_TARGET),
            (line(target={**target, "num-cores": None}), SkipReason.BAD_TARGET),
            (line(trace=[EVIL + instructions, decisions]), SkipReason.UNTRUSTED_TRACE),
            (line(trace=[unknown + instructions, decisions]), SkipReason.UNTRUSTED_TRACE),
            (line(trace=matmuls_trace, seconds=[1e-9]), SkipReason.NO_REPLAY),
        ]
        write_lines(path, [one for one, _ in bad] + lines)
        with path.open("ab") as file:
            file.write(b'[0, [[[], []], [0.1], {"kind": "llvm"')  # a tuner that was killed
        report = imported()
        expected: dict[SkipReason, tuple[int, ...]] = {}
        for position, (_, reason) in enumerate(bad):
            expected[reason] = (*expected.get(reason, ()), position + 1)
        expected[SkipReason.BAD_LINE] += (len(bad) + len(lines) + 1,)
        assert told(report.skipped) == expected
        assert {one.file for one in report.skipped} == {RECORDS}
        assert report.new_records == 16
        details = {one.reason: one.detail for one in report.skipped}
        assert (
            details[SkipReason.BAD_TARGET] == "the record names no target; say which with --target"
        )
        assert "pragma_import_llvm" in details[SkipReason.UNTRUSTED_TRACE]
        assert len(all_records(store, report)) == 16

    def test_a_trace_that_is_refused_is_never_replayed(
        self, folder: Path, imported: Importer, store: Store
    ) -> None:
        """However fast it claims to be."""
        path = folder / RECORDS
        lines = lines_of(path)
        for _, record in lines:
            record[0][0][:0] = EVIL
        write_lines(path, lines)
        report = imported()
        assert (report.new_records, report.replayed) == (0, 0)
        assert told(report.skipped) == {SkipReason.UNTRUSTED_TRACE: (1, 2, 3, 4, 5)}
        assert report.skipped[0].count == 16
        assert all_records(store, report) == []


class TestTargets:
    def test_only_those_of_the_wanted_target_go_in(self, imported: Importer, store: Store) -> None:
        wanted = resolve_target(A72)
        report = imported(wanted)
        assert (report.records, report.targets) == (8, (str(wanted),))
        assert [(one.reason, one.count) for one in report.skipped] == [(SkipReason.OTHER_TARGET, 8)]
        assert {one.key.target for one in all_records(store, report)} == {str(wanted)}

    def test_what_a_record_leaves_open_is_taken_from_the_wanted_target(
        self, folder: Path, imported: Importer, store: Store
    ) -> None:
        path = folder / RECORDS
        lines = lines_of(path)
        coreless = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a76"}
        for (_, record), target in zip(lines, [None, coreless] * 8, strict=True):
            record[2] = target
        write_lines(path, lines)
        report = imported(resolve_target(A76))
        assert (report.skipped, report.targets) == ((), (str(resolve_target(A76)),))


class TestPrograms:
    def test_the_hash_in_the_file_is_not_believed(
        self, folder: Path, imported: Importer, store: Store
    ) -> None:
        lines = lines_of(folder / WORKLOADS)
        lines[0][0], lines[1][0] = lines[1][0], lines[0][0]
        write_lines(folder / WORKLOADS, lines)
        records = all_records(store, imported())
        assert {(one.key.op, one.key.workload_hash) for one in records} == {
            ("conv2d+add+relu", module_hash(tvm.ir.load_json(PROGRAMS[0]))),
            ("matmul", module_hash(tvm.ir.load_json(PROGRAMS[1]))),
        }

    def test_a_file_of_another_tvm_is_refused_with_both_versions(
        self, folder: Path, imported: Importer, store: Store
    ) -> None:
        """As TVM 0.26 wrote it, where functions were of another class."""
        change_programs(
            folder,
            lambda text: text.replace("tirx.PrimFunc", "tir.PrimFunc").replace(
                "0.27.0.post1", "0.26.0"
            ),
        )
        with pytest.raises(InterchangeError) as raised:
            imported()
        assert str(raised.value) == (
            f"{folder / WORKLOADS} was written by TVM 0.26.0, and tvm-0.27.0+llvm-22 can load none "
            "of its programs, whose form changes between versions (line 1: the program is refused: "
            "it holds 'tir.PrimFunc', which is not on the list); tune the models again, or import "
            "what TVM 0.27.0.post1 wrote"
        )
        assert store.interchange.export_survey("tvm-0.27.0+llvm-22").records == 0

    def test_a_file_without_a_program_that_loads_says_what_is_wrong_with_the_first(
        self, folder: Path, imported: Importer
    ) -> None:
        (folder / WORKLOADS).write_text(workload_line("0" * 16, "no JSON"))
        with pytest.raises(InterchangeError, match=r"can load none of .*; line 1: the program is"):
            imported()

    def test_files_without_any_line_are_imported_as_they_are(
        self, folder: Path, imported: Importer
    ) -> None:
        for name in (WORKLOADS, RECORDS):
            (folder / name).write_text("")
        report = imported()
        assert (report.workloads, report.records, report.skipped) == (0, 0, ())

    def test_a_program_that_calls_out_is_left_out_with_its_records(
        self, folder: Path, imported: Importer
    ) -> None:
        data = te.placeholder((4,), name="data")
        calls = te.compute((4,), lambda i: tvm.tirx.call_extern("float32", "system", data[i]))
        tir = tvm.ir.save_json(normalized(te.create_prim_func([data, calls])))
        lines = (folder / WORKLOADS).read_text().splitlines(keepends=True)
        (folder / WORKLOADS).write_text(workload_line("0" * 16, tir) + lines[1])
        report = imported()
        assert (report.workloads, report.records) == (1, 8)
        assert told(report.skipped) == {
            SkipReason.UNTRUSTED_PROGRAM: (1,),
            SkipReason.NO_WORKLOAD: (1, 2, 3, 4, 5),
        }
        assert "'tirx.call_extern'" in report.skipped[0].detail

    def test_a_program_that_ends_the_process_is_left_out(
        self, folder: Path, imported: Importer
    ) -> None:
        """Loading it here would end the tests."""
        change_programs(folder, with_deep_sum, only=0)
        report = imported()
        assert (report.workloads, report.records) == (1, 8)
        assert told(report.skipped)[SkipReason.UNREADABLE_PROGRAM] == (1,)
        assert "TVM did not survive it" in report.skipped[0].detail


def change_programs(folder: Path, change: Callable[[str], str], only: int | None = None) -> None:
    path = folder / WORKLOADS
    programs = [parse_workload(line) for line in read_lines(path)]
    changed = [
        change(text) if only in (None, number) else text for number, text in enumerate(programs)
    ]
    path.write_text("".join(workload_line("0" * 16, text) for text in changed))


def with_deep_sum(text: str) -> str:
    """A stored value to which zero is added 20,000 times."""
    parsed = json.loads(text)
    nodes = parsed["nodes"]
    store = next(node for node in nodes if node["type"] == "tirx.BufferStore")
    kind = nodes[store["data"]["value"]]["data"]["ty"]
    for _ in range(20_000):
        value = store["data"]["value"]
        nodes.append({"type": "prim.Add", "data": {"span": 0, "ty": kind, "a": value, "b": value}})
        store["data"]["value"] = len(nodes) - 1
    return json.dumps(parsed)


class TestTheFastest:
    def test_they_are_found_among_many(self) -> None:
        fastest = FastestTraces(3)
        for number in range(1000):
            fastest.add(f"trace {number}", float((number * 7919) % 1000), number)
        by_time = sorted(range(1000), key=lambda number: (number * 7919) % 1000)
        assert fastest.offsets == tuple(by_time[:3])

    def test_a_trace_counts_once_with_its_best_time(self) -> None:
        fastest = FastestTraces(2)
        for offset, (name, seconds) in enumerate([("a", 5.0), ("b", 2.0), ("a", 1.0), ("c", 3.0)]):
            fastest.add(name, seconds, offset)
        assert fastest.offsets == (2, 1)
