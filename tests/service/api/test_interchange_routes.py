"""Records taken in and given out over HTTP, and programs shown, by processes that have TVM."""

from __future__ import annotations

import dataclasses
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import tvm
from cache_samples import EVIL_TRACE, conv, measure, run_sql, success
from fastapi import FastAPI
from fastapi.testclient import TestClient
from tvm import te

from tunebook.cache.access.tokens import Role
from tunebook.cache.exchange.interchange import RECORDS, WORKLOADS, record_line, workload_line
from tunebook.cache.store import Store
from tunebook.service.api.processes import command_runner
from tunebook.service.api.processes.command_runner import CommandRunner
from tunebook.tuner.splitting.split import normalized

TARGET = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4"
AS_TVM = '{"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a76", "num-cores": 4}'
TAR = {"Content-Type": "application/x-tar"}
PARALLEL = json.dumps(
    [
        [
            ["GetSBlock", [], ["T_multiply", "main"], ["b0"]],
            ["GetLoops", ["b0"], [], ["l1"]],
            ["Parallel", ["l1"], [], []],
        ],
        [],
    ]
)


@pytest.fixture(scope="module")
def program() -> str:
    data = te.placeholder((4,), name="data")
    doubled = te.compute((4,), lambda i: data[i] * 2.0, "T_multiply")
    return str(tvm.ir.save_json(normalized(te.create_prim_func([data, doubled]))))


def archive(**files: str) -> bytes:
    """A tar archive of these files, in a folder."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(f"work/{name}.json")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return made.getvalue()


@pytest.fixture
def database_files(program: str) -> dict[str, str]:
    """A program with two trials, of which one failed."""
    return {
        WORKLOADS.removesuffix(".json"): workload_line("0" * 16, program),
        RECORDS.removesuffix(".json"): record_line(0, "[[], []]", [2e-3], AS_TVM, "[]")
        + record_line(0, '[[["EnterPostproc", [], [], []]], []]', [], AS_TVM, "[]"),
    }


@pytest.fixture
def client(make_client: Callable[..., TestClient]) -> TestClient:
    return make_client(Role.ADMIN)


def runner_of(client: TestClient) -> CommandRunner:
    assert isinstance(client.app, FastAPI)
    runner: CommandRunner = client.app.state.command_runner
    return runner


@pytest.mark.slow
def test_what_is_imported_can_be_exported_and_imported_again(
    client: TestClient, database_files: dict[str, str]
) -> None:
    sent = client.post("/api/v1/import", content=archive(**database_files), headers=TAR)
    assert sent.status_code == 200, sent.text
    document = sent.json()
    assert (document["records"], document["new_records"], document["failures"]) == (2, 2, 1)
    assert document["targets"] == [TARGET]
    listed = client.get("/api/v1/records", params={"source": "import"}).json()["items"]
    assert {one["seconds"] for one in listed} == {2e-3, None}

    given = client.get("/api/v1/export", params={"target": TARGET})
    assert given.headers["Content-Type"] == "application/x-tar"
    with tarfile.open(fileobj=io.BytesIO(given.content)) as tar:
        assert tar.getnames() == ["export.json", WORKLOADS, RECORDS]
        report = tar.extractfile("export.json")
        assert report is not None
        assert json.load(report)["records"] == 2
    again = client.post("/api/v1/import", content=given.content, headers=TAR).json()
    assert (again["records"], again["new_records"], again["skipped"]) == (2, 0, [])


def sparse() -> bytes:
    made = bytearray(archive(database_workload="x"))
    made[156:157] = tarfile.GNUTYPE_SPARSE
    made[148:156] = b"        "
    made[148:156] = b"%06o\0 " % sum(made[:512])
    return bytes(made)


def linked() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        member = tarfile.TarInfo(WORKLOADS)
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(member)
    return made.getvalue()


def header(kind: bytes, size: int, text: bytes = b"") -> bytes:
    """A header of an archive with what follows it, whatever size it says that this has."""
    member = tarfile.TarInfo(WORKLOADS)
    member.type, member.size = kind, size
    return member.tobuf(tarfile.GNU_FORMAT) + text + b"\0" * (-len(text) % tarfile.BLOCKSIZE)


def attributes(text: bytes) -> bytes:
    return header(tarfile.XHDTYPE, len(text), text)


WHOLE = archive(database_workload="x", database_tuning_record="y")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "empty"),
        (b"no archive" * 100, "invalid header"),
        (archive(database_workload="x"), f"it holds no {RECORDS}"),
        (
            archive(database_workload="x", database_tuning_record="y")[:700],
            "unexpected end of data",
        ),
        (linked(), "is no plain file"),
        (sparse(), "is no plain file"),
        (header(tarfile.REGTYPE, -tarfile.BLOCKSIZE) + WHOLE, "a member of -512 bytes"),
        (attributes(b"14 size=-1024\n") + WHOLE, "a member of -1024 bytes"),
        (attributes(b"15 size=-99999\n") + WHOLE, "a member of -99999 bytes"),
        (header(tarfile.GNUTYPE_LONGNAME, 2, b"a\0") * 2000 + WHOLE, "without end"),
        (attributes(b"12 mtime=10\n") * 2000 + WHOLE, "without end"),
        (header(tarfile.XHDTYPE, 2**30) + WHOLE, "a header of 1073741824 bytes"),
        (header(tarfile.GNUTYPE_LONGLINK, 2**30) + WHOLE, "a header of 1073741824 bytes"),
    ],
)
def test_a_body_that_is_no_archive_is_refused(client: TestClient, body: bytes, said: str) -> None:
    answer = client.post("/api/v1/import", content=body, headers=TAR)
    assert (answer.status_code, answer.json()["type"]) == (422, "/problems/interchange")
    assert said in answer.json()["detail"]


@pytest.mark.slow
def test_an_archive_that_the_disk_has_no_room_for_is_refused(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A device that is always full stands in for a disk that is."""
    (tmp_path / "body.tar").symlink_to("/dev/full")
    monkeypatch.setattr(tempfile, "TemporaryDirectory", lambda prefix: nullcontext(str(tmp_path)))
    answer = client.post("/api/v1/import", content=WHOLE, headers=TAR)
    assert (answer.status_code, answer.json()["type"]) == (507, "/problems/no-room")
    assert "TMPDIR" in answer.json()["detail"]


def test_a_database_that_cannot_be_read_is_one_line_without_paths(client: TestClient) -> None:
    body = archive(database_workload="x\n", database_tuning_record="y\n")
    answer = client.post("/api/v1/import", content=body, headers=TAR)
    assert (answer.status_code, answer.json()["type"]) == (422, "/problems/interchange")
    assert answer.json()["detail"].startswith(f"the archive/{WORKLOADS} is no file of a MetaSched")


@pytest.mark.parametrize("role", [Role.READ, Role.SUBMIT, Role.WORKER, Role.BOARD])
def test_only_an_administrator_imports(make_client: Callable[..., TestClient], role: Role) -> None:
    answer = make_client(role).post("/api/v1/import", content=archive(), headers=TAR)
    assert (answer.status_code, answer.json()["type"]) == (403, "/problems/forbidden")


@pytest.mark.parametrize(
    "headers",
    [{"Content-Type": "application/json"}, {**TAR, "Content-Encoding": "gzip"}],
    ids=["json", "gzip"],
)
def test_an_archive_is_sent_as_it_is(client: TestClient, headers: dict[str, str]) -> None:
    answer = client.post("/api/v1/import", content=archive(), headers=headers)
    assert (answer.status_code, answer.json()["type"]) == (415, "/problems/unsupported-media")


@pytest.mark.slow
def test_a_command_that_takes_too_long_is_ended(
    client: TestClient, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that never ends: while this process pauses an export could."""
    assert isinstance(client.app, FastAPI)
    (tmp_path / "endless.py").write_text("import time\n\nwhile True:\n    time.sleep(3600)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(command_runner, "_MODULE", "endless")
    client.app.state.command_runner = CommandRunner(store, seconds=0.1)
    answer = client.get("/api/v1/export")
    assert (answer.status_code, answer.json()["type"]) == (422, "/problems/interchange")
    assert "run `tunebook export` on the machine" in answer.json()["detail"]


@pytest.mark.slow
def test_a_command_that_takes_too_much_memory_fails_alone(client: TestClient, store: Store) -> None:
    assert isinstance(client.app, FastAPI)
    client.app.state.command_runner = CommandRunner(store, memory=64 * 2**20)
    answer = client.get("/api/v1/export")
    assert answer.json()["type"] == "/problems/interchange"
    assert client.get("/api/v1/records").status_code == 200


class TestScripts:
    @pytest.fixture
    def record(self, store: Store, program: str) -> int:
        workload = dataclasses.replace(conv(), tir=program)
        return measure(store, workload, {"m": success(1e-3)}, trace=PARALLEL)["m"]

    def ask(self, client: TestClient, record: int) -> Any:
        return client.get(f"/api/v1/records/{record}").json()

    @pytest.mark.slow
    def test_a_scheduled_program_is_shown_and_kept(
        self, client: TestClient, database: str, record: int
    ) -> None:
        shown = self.ask(client, record)
        assert shown["script_error"] is None
        assert "T.parallel(4)" in shown["script"]
        # Made anew it would fail.
        run_sql(database, "UPDATE workloads SET tir = :nothing", nothing=b"")
        assert self.ask(client, record)["script"] == shown["script"]

    @pytest.mark.slow
    def test_why_a_program_cannot_be_shown_is_said(
        self, client: TestClient, database: str, record: int
    ) -> None:
        unfit = PARALLEL.replace("T_multiply", "T_add")
        for trace, said in ((EVIL_TRACE, "the trace is refused"), (unfit, "T_add")):
            run_sql(database, "UPDATE records SET trace = :trace", trace=trace)
            shown = self.ask(client, record)
            assert shown["script"] is None
            assert said in shown["script_error"]

    @pytest.mark.slow
    def test_the_coordinator_itself_loads_no_tvm(
        self, store: Store, record: int, tmp_path: Path
    ) -> None:
        program = (
            "import sys\n"
            "from fastapi.testclient import TestClient\n"
            "from tunebook.cache.store import Store\n"
            "from tunebook.service.app import create_app\n"
            "from tunebook.service.api.settings import Settings\n"
            "headers = {'Authorization': f'Bearer {sys.argv[2]}'}\n"
            "with Store.open(sys.argv[1]) as store:\n"
            "    app = create_app(Settings(models=sys.argv[3]), store)\n"
            "    with TestClient(app, base_url='http://localhost', headers=headers) as client:\n"
            "        for path in sys.argv[4:]:\n"
            "            answer = client.get(f'/api/v1/{path}')\n"
            "            assert answer.status_code == 200, answer.text\n"
            "assert 'T.parallel' in answer.json()['script']\n"
            "print(sorted({'tvm', 'onnx', 'xgboost'} & set(sys.modules)))\n"
        )
        secret = store.tokens.create("reader", Role.READ).secret
        models = str(tmp_path / "models")
        paths = ["jobs", "schedules", "targets", "boards", f"records/{record}"]
        done = subprocess.run(
            [sys.executable, "-c", program, store.url, secret, models, *paths],
            capture_output=True,
            text=True,
        )
        assert done.stdout.strip() == "[]", done.stderr
