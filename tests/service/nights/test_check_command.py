"""`tunebook check` in a pipeline: at a coordinator and in a database, without TVM."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from cache_samples import A53, A76, COMPILER, conv, serve
from real_nights import Nights, model_file

from tunebook.cache.boards.board_reports import ClassDefaults
from tunebook.cache.errors import ExitCode
from tunebook.cache.records import Model, Task, Workload
from tunebook.cache.store import Store
from tunebook.service.cli import run

HIT, MISSED = conv(56), conv(28)
SHAPES = "input=1,64,56,56"

Split = Callable[..., None]
Check = Callable[..., "Checked"]


class Checked:
    """What a check ended with and said."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def annotations(self) -> list[str]:
        return [line for line in (self.out + self.err).splitlines() if line.startswith("::")]


@pytest.fixture
def split(store: Store) -> Split:
    """Stores what a model of this digest was split into."""

    def saving(
        digest: str, *workloads: Workload, shapes: str = SHAPES, compiler: str = COMPILER
    ) -> None:
        tasks = tuple(Task(workload, 1) for workload in workloads)
        store.save_model(Model(digest, shapes, A76, compiler, "", tasks))

    return saving


@pytest.fixture(params=["--server", "--db"])
def check(
    request: pytest.FixtureRequest,
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Check:
    """Checks the models of these arguments for the sample target, in the folder of the models."""
    for name in ("TUNEBOOK_SERVER", "TUNEBOOK_DATABASE_URL", "GITHUB_ACTIONS", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    asked = [request.param, "tunebook.db"]
    if request.param == "--server":
        # Of them the other kind of place has no need.
        nights: Nights = request.getfixturevalue("nights")
        token = nights.coordinator.headers["Authorization"].removeprefix("Bearer ")
        monkeypatch.setenv("TUNEBOOK_TOKEN", token)
        asked = [request.param, nights.coordinator.url]

    def checking(*arguments: str, target: str = A76) -> Checked:
        code = run(["check", *arguments, "--target", target, *asked])
        said = capfd.readouterr()
        return Checked(code, said.out, said.err)

    return checking


def test_a_model_whose_schedules_are_all_there_passes(
    check: Check, tmp_path: Path, store: Store, split: Split
) -> None:
    digest = model_file(tmp_path, "a")
    split(digest, HIT)
    serve(store, HIT)
    checked = check("a.onnx", digest, "--json")
    assert checked.code == ExitCode.OK
    assert checked.document == {
        "min_hit_rate": 1.0,
        "ok": True,
        "models": [
            {
                "model": model,
                "digest": digest,
                "target": A76,
                "hits": 1,
                "wanted": 1,
                "hit_rate": 1.0,
                "ok": True,
                "misses": [],
            }
            for model in ("a.onnx", digest)
        ],
    }


def test_a_hit_rate_that_is_too_low_is_a_miss_with_its_causes_and_what_mends_them(
    check: Check, tmp_path: Path, store: Store, split: Split
) -> None:
    split(model_file(tmp_path, "a"), HIT, MISSED)
    serve(store, HIT)
    checked = check("a.onnx")
    assert checked.code == ExitCode.MISS
    assert "1/2" in checked.out
    assert "below 100.0 %" in checked.out
    assert "1 other-shape" in checked.err
    assert "to mend: tunebook" in checked.err
    assert "a.onnx --target" in checked.err
    assert checked.err.splitlines()[-1] == (
        f"error: the hit rate is below 100.0 % for a.onnx on {A76} (1/2)"
    )


def test_a_target_is_completed_by_its_class_of_boards_which_what_mends_names(
    check: Check, tmp_path: Path, store: Store, split: Split
) -> None:
    store.boards.set_defaults("pi5", ClassDefaults(4, "aarch64-linux-gnu", "cortex-a76"))
    split(model_file(tmp_path, "a"), HIT, MISSED)
    checked = check("a.onnx", "--boards", "pi5", target="llvm -mattr=+dotprod,+neon")
    assert checked.code == ExitCode.MISS
    assert f"completed by the board class pi5: {A76}" in checked.err
    assert "0/2" in checked.out
    assert "--boards pi5" in checked.err


@pytest.mark.parametrize(("asked", "code"), [("0.5", ExitCode.OK), ("0.51", ExitCode.MISS)])
def test_as_many_schedules_as_were_asked_for_are_enough(
    check: Check, tmp_path: Path, store: Store, split: Split, asked: str, code: ExitCode
) -> None:
    split(model_file(tmp_path, "a"), HIT, MISSED)
    serve(store, HIT)
    checked = check("a.onnx", "--min-hit-rate", asked, "--json")
    assert checked.code == code
    assert checked.document["ok"] is (code == ExitCode.OK)
    (miss,) = checked.document["models"][0]["misses"]
    assert miss["reason"] == "other-shape"


def test_one_model_of_several_that_misses_is_enough_to_fail(
    check: Check, tmp_path: Path, store: Store, split: Split
) -> None:
    split(model_file(tmp_path, "a"), HIT)
    split(model_file(tmp_path, "b"), MISSED)
    serve(store, HIT)
    checked = check("a.onnx", "b.onnx", "--json")
    assert checked.code == ExitCode.MISS
    assert [one["ok"] for one in checked.document["models"]] == [True, False]


def test_emulated_schedules_count_where_they_are_accepted(
    check: Check, tmp_path: Path, store: Store, split: Split
) -> None:
    split(model_file(tmp_path, "a"), HIT)
    serve(store, HIT, emulated=True)
    assert check("a.onnx").code == ExitCode.MISS
    assert check("a.onnx", "--accept-emulated").code == ExitCode.OK


@pytest.mark.parametrize("workspace", ["", "other", "here"])
def test_on_github_each_cause_marks_the_model(
    check: Check,
    tmp_path: Path,
    store: Store,
    split: Split,
    monkeypatch: pytest.MonkeyPatch,
    workspace: str,
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    places = {"": "", "other": "/nowhere", "here": str(tmp_path.parent)}
    monkeypatch.setenv("GITHUB_WORKSPACE", places[workspace])
    split(model_file(tmp_path, "a, b"), HIT, MISSED)
    serve(store, HIT)
    checked = check("a, b.onnx")
    assert checked.code == ExitCode.MISS
    (line,) = checked.annotations
    named = {
        "": "a%2C b.onnx",
        "other": f"{tmp_path}/a%2C b.onnx",
        "here": f"{tmp_path.name}/a%2C b.onnx",
    }
    assert line.startswith(f"::error file={named[workspace]},title=1/2 schedules hit on llvm ")
    assert "::1 other-shape" in line
    assert f"%0A{MISSED.key.op} | {MISSED.key.buffers}%0Ato mend: tunebook " in line


def test_on_github_misses_that_are_allowed_are_warnings(
    check: Check,
    tmp_path: Path,
    store: Store,
    split: Split,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    split(model_file(tmp_path, "a"), HIT, MISSED)
    serve(store, HIT)
    checked = check("a.onnx", "--min-hit-rate", "0.5", "--json")
    assert checked.code == ExitCode.OK
    assert [line.partition(" ")[0] for line in checked.annotations] == ["::warning"]
    assert checked.document["ok"] is True


def test_what_mends_a_digest_is_done_where_it_was_asked(
    check: Check, split: Split, request: pytest.FixtureRequest
) -> None:
    split("1" * 64, MISSED)
    (mending,) = [line for line in check("1" * 64).err.splitlines() if "to mend: " in line]
    if request.node.callspec.params["check"] == "--server":
        assert "tunebook submit MODEL " in mending
        assert " --server http://127.0.0.1:" in mending
    else:
        assert "tunebook tune MODEL " in mending
        assert " --db tunebook.db" in mending


def test_a_model_that_was_never_split_is_no_miss(check: Check, split: Split) -> None:
    split("1" * 64, HIT)
    for digest, target in (("0" * 64, A76), ("1" * 64, A53)):
        checked = check(digest, target=target)
        assert checked.code == ExitCode.SERVER
        assert "was never split for" in checked.err
        assert checked.err.count("\n") == 1


@pytest.mark.parametrize(
    ("others", "options", "code"),
    [
        ({"shapes": "input=4,64,56,56"}, [], ExitCode.SERVER),
        ({"shapes": "input=4,64,56,56"}, ["--shape", SHAPES], ExitCode.OK),
        ({"shapes": "input=4,64,56,56"}, ["--shape", "input=9,64,56,56"], ExitCode.SERVER),
        ({"compiler": "tvm-0.28.0+llvm-22"}, [], ExitCode.SERVER),
        ({"compiler": "tvm-0.28.0+llvm-22"}, ["--compiler", COMPILER], ExitCode.OK),
    ],
)
def test_of_several_splits_the_options_say_which(
    check: Check,
    store: Store,
    split: Split,
    others: dict[str, str],
    options: list[str],
    code: ExitCode,
) -> None:
    split("1" * 64, HIT)
    split("1" * 64, HIT, **others)
    serve(store, HIT)
    assert check("1" * 64, *options).code == code


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["none.onnx"], ExitCode.USAGE, "none.onnx is neither a model file that is there nor"),
        (["1" * 63], ExitCode.USAGE, "is neither a model file that is there nor"),
        (["."], ExitCode.USAGE, "cannot be read (Is a directory)"),
        (["1" * 64, "--shape", "input"], ExitCode.USAGE, "is not of the form"),
        (["1" * 64, "--min-hit-rate", "1.5"], ExitCode.USAGE, "--min-hit-rate"),
        (["1" * 64, "--target", "llvm"], ExitCode.BAD_TARGET, "the target has no"),
    ],
)
def test_a_wrong_call_is_no_miss(
    check: Check, arguments: list[str], code: ExitCode, said: str
) -> None:
    checked = check(*arguments)
    assert checked.code == code
    assert said in checked.err
    assert checked.err.count("\n") == 1


PROBLEM = "application/problem+json"
ANSWERS = {
    "no page": (404, "text/html", "<h1>Not Found</h1>"),
    "another service": (404, "application/json", '{"detail": "Not Found"}'),
    "nothing of that name": (404, PROBLEM, '{"type": "/problems/not-found", "detail": "gone"}'),
    "another conflict": (409, "application/json", '{"detail": "Conflict"}'),
    "another state": (409, PROBLEM, '{"type": "/problems/conflict", "detail": "it is done"}'),
    "a miss of nothing": (409, PROBLEM, '{"type": "/problems/schedule-miss", "misses": []}'),
    "an unknown reason": (
        409,
        PROBLEM,
        '{"type": "/problems/schedule-miss", "misses": [{"key": "a", "reason": "b", '
        '"nearest": null, "differences": [], "explanation": "", "mending_command": ""}]}',
    ),
    "a sign-in page": (200, "text/html", "<form>"),
    "something else": (200, "application/json", "[]"),
    "another place": (302, "text/html", ""),
    "no token": (401, PROBLEM, '{"type": "/problems/unauthorized", "detail": "who are you?"}'),
    "a wrong role": (403, PROBLEM, '{"type": "/problems/forbidden", "detail": "not you"}'),
}


@pytest.fixture
def elsewhere(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a web server that gives one answer to everything."""
    status, kind, body = ANSWERS[request.param]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("elsewhere", ANSWERS, indirect=True)
def test_no_other_answer_looks_like_a_miss(
    elsewhere: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    code = run(["check", "1" * 64, "--target", A76, "--server", elsewhere])
    said = capfd.readouterr()
    assert code == ExitCode.SERVER
    assert said.out.startswith("::error title=tunebook check could not ask::")
    assert said.err.count("\n") == 1


def test_a_coordinator_that_is_not_there_is_no_miss(
    capfd: pytest.CaptureFixture[str], held_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNEBOOK_PATIENCE", "0")
    server = f"http://127.0.0.1:{held_port}"
    assert run(["check", "1" * 64, "--target", A76, "--server", server]) == ExitCode.SERVER
    assert "does not answer" in capfd.readouterr().err


def test_a_database_that_is_not_there_is_no_miss(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    database = str(tmp_path / "none.db")
    assert run(["check", "1" * 64, "--target", A76, "--db", database]) == ExitCode.DATABASE
    assert "there is no database" in capfd.readouterr().err
