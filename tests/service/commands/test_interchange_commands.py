"""`tunebook import` and `tunebook export` as they are used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tvm
from tvm import te

from tunebook.cache.errors import ExitCode
from tunebook.cache.exchange.interchange import RECORDS, WORKLOADS, record_line, workload_line
from tunebook.cache.store import Store
from tunebook.service.cli import run
from tunebook.tuner.splitting.split import normalized

TARGET = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4"
AS_TVM = '{"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a76", "num-cores": 4}'
UNSCHEDULED = "[[], []]"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A program with two trials, of which one failed, and a line of something else."""
    data = te.placeholder((4,), name="data")
    doubled = te.compute((4,), lambda i: data[i] * 2.0, "T_multiply")
    program = tvm.ir.save_json(normalized(te.create_prim_func([data, doubled])))
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / WORKLOADS).write_text(workload_line("0" * 16, program))
    (folder / RECORDS).write_text(
        record_line(0, UNSCHEDULED, [2e-3], AS_TVM, "[]")
        + record_line(0, '[[["EnterPostproc", [], [], []]], []]', [], AS_TVM, "[]")
        + "half a line"
    )
    return folder


def test_an_import_says_what_went_in_and_what_did_not_and_an_export_writes_it(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    database = ["--db", str(tmp_path / "book.db")]
    assert run(["import", str(folder), *database]) == ExitCode.OK
    out, err = capfd.readouterr()
    assert out.splitlines()[:2] == [
        "2 records of 1 workloads (1 of them failures): 2 are new, 0 were stored already; "
        "1 traces were replayed.",
        f"  {TARGET}",
    ]
    assert "not a line of this format" in out
    assert f"{RECORDS}: 3" in out
    assert "run `tunebook migrate MODEL --target T`" in out
    assert err == ""

    assert run(["import", str(folder), *database, "--json"]) == ExitCode.OK
    document = json.loads(capfd.readouterr().out)
    assert (document["records"], document["new_records"], document["failures"]) == (2, 0, 1)
    assert document["targets"] == [TARGET]
    assert document["skipped"] == [
        {
            "file": RECORDS,
            "reason": "not a line of this format",
            "count": 1,
            "lines": [3],
            "detail": "it is not JSON",
        }
    ]

    exported = tmp_path / "exported"
    assert run(["export", str(exported), *database]) == ExitCode.OK
    assert capfd.readouterr().out.splitlines() == [
        "2 records of 1 workloads (1 of them failures) by tvm-0.27.0+llvm-22.",
        f"  {TARGET}",
    ]
    assert sorted(one.name for one in exported.iterdir()) == [RECORDS, WORKLOADS]


def test_an_import_of_which_nothing_can_be_used_fails(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = TARGET.replace("a76", "a72")
    arguments = ["import", str(folder), "--db", str(tmp_path / "book.db"), "--target", other]
    assert run([*arguments, "--json"]) == ExitCode.FAILURE
    document = json.loads(capfd.readouterr().out)
    assert document["records"] == 0
    assert {one["reason"]: one["detail"] for one in document["skipped"]} == {
        "for another target": TARGET,
        "not a line of this format": "it is not JSON",
    }


def test_what_cannot_be_imported_or_exported_is_one_line(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    database = ["--db", str(tmp_path / "book.db")]
    assert run(["import", str(tmp_path), *database]) == ExitCode.FAILURE
    assert not (tmp_path / "book.db").exists()
    Store.open(database[1]).close()
    assert run(["export", str(folder), "--db", str(tmp_path / "none.db")]) == ExitCode.DATABASE
    assert run(["export", str(folder), *database]) == ExitCode.FAILURE
    assert run(["export", str(folder / WORKLOADS), *database]) == ExitCode.FAILURE
    out = tmp_path / "out"
    assert run(["export", str(out), "--target", TARGET, *database]) == ExitCode.FAILURE
    assert not out.exists()
    errors = capfd.readouterr().err.splitlines()
    assert [line.split(";")[0] for line in errors] == [
        f"error: {tmp_path} has no {WORKLOADS} and no {RECORDS}",
        f"error: there is no database at {tmp_path}/none.db",
        f"error: {folder}/{WORKLOADS} is there already",
        f"error: {folder}/{WORKLOADS} is a file",
        f"error: nothing was exported: tvm-0.27.0+llvm-22 has no records for {TARGET}",
    ]
