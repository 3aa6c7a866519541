"""MetaSchedule's files as text: lines are read one by one, and a bad one costs itself alone."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from cache_samples import TRACE
from hypothesis import given
from hypothesis import strategies as st

from tunebook.cache.errors import InterchangeError
from tunebook.cache.exchange.interchange import (
    RECORDS,
    WORKLOADS,
    BadLineError,
    Line,
    find_files,
    line_at,
    parse_record,
    parse_workload,
    read_lines,
    record_line,
    version_of,
    workload_line,
)

READER = "tvm-0.27.0+llvm-22"
AUTOTVM = {
    "input": ["llvm -keys=cpu", "conv2d_NCHWc.x86", [["TENSOR", [1, 3, 8, 8], "float32"]], {}],
    "config": {"index": 7, "code_hash": None, "entity": []},
    "result": [[0.001], 0, 1.5, 1600000000.0],
    "version": 0.2,
    "tvm_version": "0.8.0",
}
ANSOR = {
    "i": [['["1d1c5cf3", 1, 128]', "llvm -keys=cpu", [6, 64, 64, 0, 0, 0, 0, 0]], [[], []]],
    "r": [[0.0004], 0, 0.5, 1600000000],
    "v": "v0.6",
}


def line(value: Any) -> Line:
    return Line(1, 0, value if isinstance(value, bytes) else json.dumps(value).encode())


def record(
    workload: Any = 0, trace: Any = (), seconds: Any = (0.5,), target: Any = None
) -> list[Any]:
    return [workload, [trace, seconds, target, None]]


class TestLines:
    def test_they_are_numbered_and_can_be_found_again(self, tmp_path: Path) -> None:
        path = tmp_path / "lines"
        path.write_bytes(b"one\n\nthree\nhalf")
        lines = list(read_lines(path))
        assert [(one.number, one.data) for one in lines] == [
            (1, b"one\n"),
            (2, b"\n"),
            (3, b"three\n"),
            (4, b"half"),
        ]
        with path.open("rb") as file:
            assert line_at(file, lines[2].offset).data == b"three\n"

    @pytest.mark.parametrize("length", [9, 10, 11, 20, 21, 200])
    def test_one_that_is_too_long_is_passed_over(self, tmp_path: Path, length: int) -> None:
        path = tmp_path / "lines"
        long = b"x" * (length - 1) + b"\n"
        path.write_bytes(b"one\n" + long + b"three\n")
        lines = list(read_lines(path, limit=10))
        assert [one.data for one in lines] == [b"one\n", long if length <= 10 else None, b"three\n"]
        assert lines[2].offset == 4 + length


class TestRecords:
    def test_what_is_written_is_read_again(self) -> None:
        text = record_line(3, TRACE, (1e-3, 2.5e-3), '{"kind": "llvm"}', '[["TENSOR"]]')
        read = parse_record(Line(1, 0, text.encode()))
        assert (read.workload, read.run_seconds, read.target) == (
            3,
            (1e-3, 2.5e-3),
            {"kind": "llvm"},
        )
        assert read.trace == TRACE

    @given(st.lists(st.floats(min_value=1e-12, max_value=1e9, exclude_min=True), min_size=1))
    def test_times_come_back_exactly(self, seconds: list[float]) -> None:
        text = record_line(0, "[[], []]", seconds, "{}", "[]")
        assert parse_record(Line(1, 0, text.encode())).run_seconds == tuple(seconds)

    def test_an_index_map_is_read_as_tvm_holds_it(self) -> None:
        compact = '{"root_index":0,"nodes":[{"type":"None"}]}'
        indented = json.dumps(json.loads(compact), indent=2)
        trace = [[["TransformLayout", ["b0", indented], [0, 1, None, True], []]], []]
        read = parse_record(line(record(trace=trace)))
        assert json.loads(read.trace)[0][0][1] == ["b0", compact]

    @pytest.mark.parametrize("trace", [None, [], [3], [[3]], [[[1, 2]]], [[["a", ["{"], [], []]]]])
    def test_what_is_no_trace_stays_as_it_is(self, trace: Any) -> None:
        assert json.loads(parse_record(line(record(trace=trace))).trace) == trace

    @pytest.mark.parametrize("seconds", [None, [], [1e10], [10000000000], [1e10, 1e10]])
    def test_a_failure_has_no_times(self, seconds: Any) -> None:
        assert parse_record(line(record(seconds=seconds))).run_seconds == ()

    def test_a_failure_is_written_as_tvm_writes_it(self) -> None:
        assert "[10000000000.0]" in record_line(0, "[[], []]", (), "{}", "[]")

    def test_what_was_measured_counts_where_a_run_failed_too(self) -> None:
        assert parse_record(line(record(seconds=[1e10, 0.25]))).run_seconds == (0.25,)

    @pytest.mark.parametrize(
        ("value", "complaint"),
        [
            (b"", "it is not JSON"),
            (b"{", "it is not JSON"),
            (b"\xff\xfe[]", "it is not JSON"),
            (b'[0, [[[], []], [0.5], {"kind": "ll', "it is not JSON"),
            (b"[" * 100_000, "it is not JSON"),
            ([], "it is not a workload's number and the four parts of a record"),
            ({}, "it is not a workload's number and the four parts of a record"),
            ([0, []], "it is not a workload's number and the four parts of a record"),
            ([0, [[], [], {}]], "it is not a workload's number and the four parts of a record"),
            (record(workload="0"), "it is not a workload's number and the four parts of a record"),
            (record(workload=True), "it is not a workload's number and the four parts of a record"),
            (record(target="llvm"), "its target is none"),
            (record(seconds="fast"), "its run times are no numbers"),
            (record(seconds=["1"]), "its run times are no numbers"),
            (record(seconds=[True]), "its run times are no numbers"),
            (record(seconds=[0]), "its run times are no times"),
            (record(seconds=[-1e-3]), "its run times are no times"),
            (record(seconds=[1e300]), "its run times are no times"),
            (record(seconds=[float("nan")]), "its run times are no times"),
            (record(seconds=[float("inf")]), "its run times are no times"),
            (record(seconds=[10**400]), "its run times are no times"),
        ],
        ids=lambda value: str(value)[:40],
    )
    def test_a_bad_line_says_what_is_wrong(self, value: Any, complaint: str) -> None:
        with pytest.raises(BadLineError, match=complaint):
            parse_record(line(value))

    def test_a_line_that_is_too_long_says_so(self) -> None:
        with pytest.raises(BadLineError, match="it is longer than 16777216 bytes"):
            parse_record(Line(1, 0, None))


class TestWorkloads:
    def test_what_is_written_is_read_again(self) -> None:
        text = workload_line("00000000000000ff", '{"µ": 1}')
        assert json.loads(text)[0] == "255"
        assert parse_workload(Line(1, 0, text.encode())) == '{"µ": 1}'

    @pytest.mark.parametrize(
        ("value", "complaint"),
        [
            (b"[", "it is not JSON"),
            (["1"], "it is not a structural hash and a program"),
            (["1", 2], "it is not a structural hash and a program"),
            (["1", "*"], "its program is not text in base64"),
            (["1", base64.b64encode(b"\2" + bytes(7) + b"\xff\xff").decode()], "not text"),
            (["1", base64.b64encode(b"{}").decode()], "its program is not as long as it says"),
        ],
    )
    def test_a_bad_line_says_what_is_wrong(self, value: Any, complaint: str) -> None:
        with pytest.raises(BadLineError, match=complaint):
            parse_workload(line(value))

    @pytest.mark.parametrize(
        ("program", "version"),
        [
            ({"metadata": {"tvm_version": "0.27.0.post1"}}, "0.27.0.post1"),
            ({"attrs": {"tvm_version": "0.18.0"}}, "0.18.0"),
            ({"metadata": {"tvm_version": 3}}, None),
            ({}, None),
            ([], None),
        ],
    )
    def test_the_tvm_that_wrote_a_program_is_named(self, program: Any, version: Any) -> None:
        assert version_of(json.dumps(program)) == version


class TestFolders:
    def test_the_two_files_are_found(self, tmp_path: Path) -> None:
        for name in (WORKLOADS, RECORDS):
            (tmp_path / name).touch()
        assert find_files(tmp_path, READER).both == (tmp_path / WORKLOADS, tmp_path / RECORDS)

    def test_a_folder_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(InterchangeError, match=f"there is no folder {tmp_path}/gone"):
            find_files(tmp_path / "gone", READER)

    def test_a_file_that_is_missing_is_named(self, tmp_path: Path) -> None:
        (tmp_path / WORKLOADS).touch()
        with pytest.raises(InterchangeError) as raised:
            find_files(tmp_path, READER)
        assert str(raised.value) == (
            f"{tmp_path} has no {RECORDS}; give the work_dir of a MetaSchedule run, or a folder "
            "that `tunebook export` wrote"
        )

    @pytest.mark.parametrize(
        ("content", "complaint"),
        [(b"\x00\xff random\n\x81", "it is not JSON"), (b"{}\n", "it is not a structural hash")],
    )
    def test_files_of_something_else_are_no_database(
        self, tmp_path: Path, content: bytes, complaint: str
    ) -> None:
        for name in (WORKLOADS, RECORDS):
            (tmp_path / name).write_bytes(content)
        with pytest.raises(InterchangeError) as raised:
            find_files(tmp_path, READER)
        assert str(raised.value).startswith(
            f"{tmp_path / WORKLOADS} is no file of a MetaSchedule database (line 1: {complaint}"
        )

    def test_a_line_of_something_else_before_a_workload_is_that_lines_matter(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / WORKLOADS).write_text("no JSON\n" + workload_line("0" * 16, "{}"))
        (tmp_path / RECORDS).touch()
        assert find_files(tmp_path, READER).workloads == tmp_path / WORKLOADS

    def test_any_other_file_is_no_folder(self, tmp_path: Path) -> None:
        path = tmp_path / RECORDS
        path.write_text("[0, []]\n")
        with pytest.raises(InterchangeError, match="is no folder; give the one that holds"):
            find_files(path, READER)

    @pytest.mark.parametrize(
        ("log", "said"),
        [(AUTOTVM, "AutoTVM, format 0.2, by TVM 0.8.0"), (ANSOR, "auto_scheduler, format v0.6")],
        ids=["AutoTVM", "auto_scheduler"],
    )
    @pytest.mark.parametrize(
        ("name", "inside"),
        [("tuning.log", True), ("tuning.log", False), (WORKLOADS, True), (RECORDS, True)],
        ids=["in a folder", "as a file", "as the workloads", "as the records"],
    )
    def test_a_log_of_an_earlier_search_is_refused_by_name(
        self, tmp_path: Path, log: Any, said: str, name: str, inside: bool
    ) -> None:
        if name in (WORKLOADS, RECORDS):
            for other in (WORKLOADS, RECORDS):
                (tmp_path / other).touch()
        path = tmp_path / name
        path.write_text(json.dumps(log) + "\n")
        with pytest.raises(InterchangeError) as raised:
            find_files(tmp_path if inside else path, READER)
        assert str(raised.value) == (
            f"{path} is a log of {said}, whose schedules {READER} cannot replay: it searches with "
            "MetaSchedule alone; tune the models again"
        )
