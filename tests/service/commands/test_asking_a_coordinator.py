"""Builds and look-ups ask a coordinator by --server; a job there mends what it misses."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "api"))

from running_coordinator import RunningCoordinator, running_coordinator

from tunebook.cache.errors import ExitCode, UsageError
from tunebook.cache.keys import ScheduleKey
from tunebook.cache.misses import Miss, MissReason
from tunebook.cache.store import Store
from tunebook.service.cli import run
from tunebook.service.commands.options import chosen_server
from tunebook.service.mending import CommandOptions, fill_in, fill_in_all

A76 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4"
URL = "https://tunebook.example"


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCoordinator]:
    folder = tmp_path_factory.mktemp("coordinator")
    with (
        Store.open(str(folder / "tunebook.db")) as store,
        running_coordinator(store, models=str(folder / "models")) as running,
    ):
        yield running


@pytest.fixture
def token(coordinator: RunningCoordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = coordinator.headers["Authorization"].removeprefix("Bearer ")
    monkeypatch.setenv("TUNEBOOK_TOKEN", secret)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model of one task, with an open dimension."""
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    ends = [onnx.helper.make_tensor_value_info(name, 1, ["n", 8]) for name in ("x", "y")]
    graph = onnx.helper.make_graph([node], "net", ends[:1], ends[1:])
    opsets = [onnx.helper.make_opsetid("", 17)]
    path = tmp_path / "net.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    return path


@pytest.mark.usefixtures("token")
def test_a_build_that_misses_is_refused_with_a_job_that_can_be_submitted(
    coordinator: RunningCoordinator, model: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = [str(model), "--target", A76, "--shape", "x=2,8", "--server", coordinator.url]
    assert run(["build", *asked, "-o", str(model.parent / "out")]) == ExitCode.MISS
    assert run(["lookup", *asked, "--json"]) == ExitCode.MISS
    out, err = capfd.readouterr()
    command = shlex.split(err.strip().rpartition("to mend: ")[2])
    assert json.loads(out)["misses"][0]["mending_command"] == shlex.join(command)
    assert command[:2] == ["tunebook", "submit"]
    # Which class of boards there is, only the user knows.
    command[command.index("CLASS")] = "rpi4"
    assert run([*command[1:], "--json"]) == ExitCode.OK
    submitted = json.loads(capfd.readouterr().out)
    with coordinator.client() as client:
        job = client.get(f"/api/v1/jobs/{submitted['job']}").json()
    assert (job["target"], job["shapes"], job["board_class"]) == (A76, {"x": [2, 8]}, "rpi4")
    assert job["budget"]["trials"]["limit"] == 16


@pytest.mark.usefixtures("token")
def test_a_build_with_untuned_code_needs_no_schedules(
    coordinator: RunningCoordinator, model: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = model.parent / "out"
    asked = [str(model), "--target", "host", "--shape", "x=2,8", "--server", coordinator.url]
    assert run(["build", *asked, "-o", str(output), "--on-miss", "warn"]) == ExitCode.OK
    assert output.with_suffix(".so").exists()
    assert "0 of 1 schedules came from the cache" in capfd.readouterr().out


def test_a_coordinator_that_refuses_has_an_exit_code_of_its_own(
    coordinator: RunningCoordinator,
    model: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TUNEBOOK_TOKEN", "tbk_wrong")
    asked = [str(model), "--target", A76, "--shape", "x=2,8", "--server", coordinator.url]
    assert run(["lookup", *asked]) == ExitCode.SERVER
    assert "TUNEBOOK_TOKEN" in capfd.readouterr().err


def test_explain_reads_a_database_only(model: Path, capfd: pytest.CaptureFixture[str]) -> None:
    asked = ["lookup", str(model), "--target", A76, "--server", URL, "--explain"]
    assert run(asked) == ExitCode.USAGE
    assert "--explain reads a database" in capfd.readouterr().err


def test_a_job_needs_a_coordinator(
    model: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TUNEBOOK_SERVER", raising=False)
    assert run(["submit", str(model), "--target", A76, "--trials", "1"]) == ExitCode.USAGE
    assert "--server" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("url", "server", "environment", "chosen"),
    [
        (None, None, {}, None),
        ("book.db", None, {}, None),
        (None, URL, {}, URL),
        (None, URL, {"TUNEBOOK_SERVER": URL}, URL),
        ("book.db", URL, {"TUNEBOOK_SERVER": URL}, None),
        ("book.db", URL, {"TUNEBOOK_DATABASE_URL": "book.db"}, URL),
    ],
    ids=["nothing", "db", "server", "environment", "db-typed", "server-typed"],
)
def test_what_was_typed_counts_whatever_the_environment_says(
    url: str | None,
    server: str | None,
    environment: dict[str, str],
    chosen: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("TUNEBOOK_SERVER", "TUNEBOOK_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert chosen_server(url, server) == chosen


@pytest.mark.parametrize(
    "environment", [{}, {"TUNEBOOK_SERVER": URL, "TUNEBOOK_DATABASE_URL": "book.db"}]
)
def test_both_a_database_and_a_coordinator_are_refused(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TUNEBOOK_SERVER", "TUNEBOOK_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="give --db or --server"):
        chosen_server("book.db", URL)


@pytest.mark.parametrize(
    ("command", "filled"),
    [
        (
            f"tunebook tune MODEL --target '{A76}' --more 48",
            f"tunebook submit net.onnx --target '{A76}' --trials 48 --layout NHWC --server {URL}",
        ),
        (
            f"tunebook migrate MODEL --target '{A76}'",
            f"tunebook submit net.onnx --target '{A76}' --trials 64 --layout NHWC --server {URL}",
        ),
        (
            f"tunebook build MODEL --target '{A76}' -o OUT --accept-emulated",
            f"tunebook build net.onnx --target '{A76}' -o out --accept-emulated --layout NHWC "
            f"--server {URL}",
        ),
    ],
    ids=["tune", "migrate", "build"],
)
def test_what_mends_a_miss_of_a_coordinator_is_a_job_there(command: str, filled: str) -> None:
    options = CommandOptions(Path("net.onnx"), Path("out"), layout="NHWC", server=URL)
    assert fill_in(command, options, misses=4) == filled


def test_a_job_has_trials_for_all_misses_that_it_is_to_mend() -> None:
    migrate, tune = (f"tunebook {words}" for words in ("migrate MODEL", "tune MODEL --more 32"))
    misses = [
        Miss(
            ScheduleKey("op", "f32[1] -> f32[1]", A76, "compiler", f"{number:016x}"),
            MissReason.OTHER_TARGET,
            None,
            (),
            "",
            command,
        )
        for number, command in enumerate([migrate, tune, migrate, migrate, tune])
    ]
    filled = fill_in_all(misses, CommandOptions(Path("net.onnx"), Path("out"), server=URL))
    trials = [miss.mending_command.split("--trials ")[1].split()[0] for miss in filled]
    assert trials == ["48", "32", "48", "48", "32"]
