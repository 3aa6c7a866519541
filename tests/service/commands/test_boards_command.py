"""`tunebook boards`, and targets that commands complete by the class of their boards."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "api"))
sys.path.insert(0, str(Path(__file__).parents[2] / "cache"))

from cache_samples import conv, measure, run_sql, success
from running_coordinator import RunningCoordinator, running_coordinator

from tunebook.cache.access.tokens import Role
from tunebook.cache.boards.board_reports import BoardReport, ClassDefaults
from tunebook.cache.errors import ExitCode
from tunebook.cache.queue.fleet import ServedBoard
from tunebook.cache.storage.database import upgrade
from tunebook.cache.store import Store
from tunebook.service.cli import run

REPORT = BoardReport(
    cpu_model="Cortex-A72",
    mtriple="aarch64-linux-gnu",
    mcpu="cortex-a72",
    cores=4,
    governor="ondemand",
    frequency_khz=1_500_000,
    temperature_c=51.23,
    throttled=("under-voltage", "capped"),
    load=0.074,
    memory_bytes=4 * 2**30,
    memory_free_bytes=3 * 2**30,
    registered=True,
)
DEFAULTS = ClassDefaults(4, "aarch64-linux-gnu", "cortex-a72")
A72 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -num-cores=4"
HOSTILE = "[red]a\x1b[2J\u202eb\nc[/red]"


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with our schema and nothing in it: copying it is quicker than making another."""
    path = tmp_path_factory.mktemp("empty") / "tunebook.db"
    upgrade(str(path))
    return path


@pytest.fixture
def database(empty_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = str(shutil.copy(empty_database, tmp_path))
    monkeypatch.setenv("TUNEBOOK_DATABASE_URL", path)
    monkeypatch.delenv("TUNEBOOK_SERVER", raising=False)
    return path


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    with Store.open(database) as opened:
        yield opened


@pytest.fixture
def coordinator(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RunningCoordinator]:
    """A coordinator on the same database, whose token is in the environment."""
    models = str(tmp_path / "models")
    with running_coordinator(store, role=Role.ADMIN, models=models) as running:
        secret = running.headers["Authorization"].removeprefix("Bearer ")
        monkeypatch.setenv("TUNEBOOK_TOKEN", secret)
        monkeypatch.delenv("TUNEBOOK_DATABASE_URL")
        yield running


@pytest.fixture(params=["the database", "a coordinator"])
def place(store: Store, request: pytest.FixtureRequest) -> list[str]:
    """The options that name the same boards in one way or the other."""
    if request.param == "a coordinator":
        return ["--server", request.getfixturevalue("coordinator").url]
    return ["--db", store.url]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model of one task."""
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    ends = [onnx.helper.make_tensor_value_info(name, 1, [2, 8]) for name in ("x", "y")]
    graph = onnx.helper.make_graph([node], "net", ends[:1], ends[1:])
    opsets = [onnx.helper.make_opsetid("", 17)]
    path = tmp_path / "net.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    return path


class TestShowing:
    def test_everything_that_is_known_of_a_board_is_shown(
        self, store: Store, capfd: pytest.CaptureFixture[str]
    ) -> None:
        store.boards.report("rpi4b", "pi-1", REPORT)
        run_sql(
            store.url,
            "UPDATE boards SET reference_seconds = 0.0012, reference_spread = 0.013, "
            "measured_at = '2026-11-30 02:00:00'",
        )
        add_suspects(store, 17)
        assert run(["boards"]) == ExitCode.OK
        shown = capfd.readouterr().out
        for said in (
            "rpi4b",
            "pi-1",
            "there",
            "Cortex-A72, 4 cores",
            "1500 MHz, ondemand",
            "51.2 °C, under-voltage",
            "0.07",
            "3.0 of 4.0 GiB free",
            "1.200 ms ± 1.3 %",
            "2026-11-30 02:00 UTC",
            "17",
            "-mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -num-cores=4",
        ):
            assert said in shown

    def test_what_no_board_tells_takes_no_column(
        self, store: Store, capfd: pytest.CaptureFixture[str]
    ) -> None:
        store.fleet.announce("w", [ServedBoard("rpi4b", "pi-1", False, 4)])
        assert run(["boards"]) == ExitCode.OK
        said = capfd.readouterr().out
        assert "pi-1" in said
        assert not [one for one in ("temperature", "reference", "suspect") if one in said]

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ("reported_at = '2026-01-01 06:00:00'", "silent since 2026-01-01 06:00 UTC"),
            (
                "quarantine = 'it takes 2 ms', quarantined_at = '2026-01-01 06:00:00'",
                "rpi4b/pi-1 is in quarantine since 2026-01-01 06:00 UTC: it takes 2 ms",
            ),
            (
                "quarantine = 'x', reported_at = '2026-01-01 06:00:00'",
                "quarantined, silent since 2026-01-01 06:00 UTC",
            ),
        ],
    )
    def test_what_is_wrong_with_a_board_is_said(
        self, store: Store, capfd: pytest.CaptureFixture[str], changes: str, said: str
    ) -> None:
        store.boards.report("rpi4b", "pi-1", REPORT)
        run_sql(store.url, f"UPDATE boards SET {changes}")
        assert run(["boards"]) == ExitCode.OK
        assert said in " ".join(capfd.readouterr().out.replace("│", " ").split())

    def test_a_board_that_is_not_at_the_tracker_says_why(
        self, store: Store, capfd: pytest.CaptureFixture[str]
    ) -> None:
        store.boards.report("rpi4b", "pi-1", BoardReport(fault="the board server crashed"))
        run(["boards"])
        assert (
            "rpi4b/pi-1 is not at the tracker: the board server crashed" in capfd.readouterr().out
        )

    def test_without_boards_it_says_how_one_gets_known(
        self, store: Store, capfd: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["boards"]) == ExitCode.OK
        assert "`tunebook board` on one" in capfd.readouterr().out

    def test_hostile_texts_are_shown_and_do_nothing(
        self, store: Store, capfd: pytest.CaptureFixture[str]
    ) -> None:
        said = {"governor": HOSTILE, "load": 10**400, "temperature_c": "hot", "frequency_khz": True}
        store.fleet.announce("w", [ServedBoard("rpi4b", HOSTILE, False, 4, said)])
        store.boards.report("rpi4b", "pi-1", BoardReport(cpu_model="[bold]A72", fault=HOSTILE))
        run_sql(store.url, "UPDATE boards SET quarantine = :text", text=HOSTILE)
        assert run(["boards"]) == ExitCode.OK
        shown = capfd.readouterr().out
        assert "[bold]A72" in shown
        assert "[red]a\N{REPLACEMENT CHARACTER}" in shown
        assert all(one.isprintable() for one in shown.replace("\n", ""))

    def test_machines_read_the_same_of_both(
        self,
        store: Store,
        place: list[str],
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        store.boards.report("rpi4b", "pi-1", REPORT)
        assert run(["boards", "--json", *place]) == ExitCode.OK
        (found,) = printed(capfd)["items"]
        assert found["defaults"] == vars(DEFAULTS)
        (board,) = found["boards"]
        assert (board["board"], board["state"], board["report"]["load"]) == ("pi-1", "there", 0.074)

    @pytest.mark.parametrize(
        ("arguments", "code"),
        [
            (["--db", "not-there.db"], ExitCode.DATABASE),
            (["--server", "http://127.0.0.1:9"], ExitCode.SERVER),
            (["--db", "a.db", "--server", "http://127.0.0.1:9"], ExitCode.USAGE),
            (["--nothing"], ExitCode.USAGE),
        ],
    )
    def test_what_keeps_it_from_asking_has_its_exit_code(
        self, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: ExitCode
    ) -> None:
        monkeypatch.delenv("TUNEBOOK_DATABASE_URL", raising=False)
        monkeypatch.delenv("TUNEBOOK_SERVER", raising=False)
        monkeypatch.setenv("TUNEBOOK_PATIENCE", "0")
        assert run(["boards", *arguments]) == code


class TestSettingAClass:
    def test_what_is_not_given_stays_as_it_is(
        self,
        store: Store,
        place: list[str],
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        everything = ["--num-cores", "4", "--mtriple", "arm64-linux-gnu", "--mcpu", "cortex-a72"]
        assert run(["boards", "set-class", "rpi4b", *everything, *place]) == ExitCode.OK
        assert A72.removeprefix("llvm ") in capfd.readouterr().out
        assert store.boards.defaults("rpi4b") == DEFAULTS
        changed = ["boards", "set-class", "rpi4b", "--num-cores", "2", "--json", *place]
        assert run(changed) == ExitCode.OK
        assert printed(capfd) == {**vars(DEFAULTS), "num_cores": 2}
        other = ["boards", "set-class", "rpi4b", "--mtriple", "x86_64-linux-gnu", *place]
        assert run(other) == ExitCode.USAGE
        assert "-mcpu=cortex-a72 is a processor of aarch64-linux-gnu" in capfd.readouterr().err
        assert run([*other, "--mcpu", ""]) == ExitCode.OK
        assert store.boards.defaults("rpi4b") == ClassDefaults(2, "x86_64-linux-gnu")

    @pytest.mark.parametrize(
        ("arguments", "code", "said"),
        [
            (["rpi4b"], ExitCode.USAGE, "nothing is to be set"),
            (["rpi4b", "--mcpu", "cortex-a72"], ExitCode.USAGE, "--mtriple and --num-cores too"),
            (["a b", "--mcpu", "x"], ExitCode.USAGE, "no name of a board class"),
            (
                ["rpi4b", "--num-cores", "0", "--mtriple", "aarch64-linux-gnu"],
                ExitCode.BAD_TARGET,
                "-num-cores",
            ),
            (["rpi4b", "--num-cores", "1", "--mtriple", "x"], ExitCode.BAD_TARGET, "no triple"),
        ],
    )
    def test_what_cannot_be_set_is_refused(
        self,
        store: Store,
        capfd: pytest.CaptureFixture[str],
        arguments: list[str],
        code: ExitCode,
        said: str,
    ) -> None:
        assert run(["boards", "set-class", *arguments]) == code
        assert said in capfd.readouterr().err
        assert store.boards.all_defaults() == {}


class TestChangingABoard:
    def test_a_board_is_judged_by_what_it_measures_from_now_on(
        self,
        store: Store,
        place: list[str],
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        for seconds in (*[1e-3] * 5, 2e-3, 2e-3):
            store.boards.note_reference("rpi4b", "pi 1", [seconds], {})
        assert store.boards.quarantined("rpi4b") == {"pi 1"}
        assert run(["boards", "new-baseline", "rpi4b/pi 1", *place]) == ExitCode.OK
        assert "rpi4b/pi 1 is judged by" in capfd.readouterr().out
        assert store.boards.quarantined("rpi4b") == frozenset()

    def test_a_board_that_is_gone_is_forgotten(
        self,
        store: Store,
        place: list[str],
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        store.boards.note_reference("rpi4b", "pi 1", [1e-3], {})
        assert run(["boards", "forget", "rpi4b/pi 1", *place]) == ExitCode.OK
        assert "rpi4b/pi 1 is forgotten" in capfd.readouterr().out
        assert store.boards.boards() == ()

    def test_a_board_that_reports_is_not(
        self,
        store: Store,
        place: list[str],
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        store.boards.report("rpi4b", "pi 1", BoardReport())
        assert run(["boards", "forget", "rpi4b/pi 1", *place]) == ExitCode.USAGE
        assert "stop its `tunebook board` first" in capfd.readouterr().err
        assert len(store.boards.boards()) == 1

    @pytest.mark.parametrize("command", ["new-baseline", "forget"])
    @pytest.mark.parametrize(
        ("address", "code", "said"),
        [
            ("rpi4b/nobody", ExitCode.FAILURE, "there is no board rpi4b/nobody"),
            ("rpi4b", ExitCode.USAGE, "names no board"),
        ],
    )
    def test_a_board_that_nobody_knows_is_refused(
        self,
        store: Store,
        capfd: pytest.CaptureFixture[str],
        address: str,
        code: ExitCode,
        said: str,
        command: str,
    ) -> None:
        assert run(["boards", command, address]) == code
        assert said in capfd.readouterr().err


class TestCompletedTargets:
    def test_a_look_up_is_for_the_target_that_the_class_completes(
        self, store: Store, model: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        store.boards.set_defaults("rpi4b", DEFAULTS)
        asked = ["lookup", str(model), "--target", "llvm -num-cores=2", "--boards", "rpi4b"]
        assert run([*asked, "--json"]) == ExitCode.MISS
        out, err = capfd.readouterr()
        completed = A72.replace("=4", "=2")
        assert f"target, completed by the board class rpi4b: {completed}\n" in err
        (miss,) = json.loads(out)["misses"]
        assert completed in miss["key"]
        command = shlex.split(miss["mending_command"])
        assert command[command.index("--boards") + 1] == "rpi4b"

    def test_a_build_asks_a_coordinator_for_the_class(
        self,
        coordinator: RunningCoordinator,
        store: Store,
        model: Path,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        store.boards.set_defaults("rpi4b", DEFAULTS)
        output = str(model.parent / "out")
        asked = ["build", str(model), "-o", output, "--boards", "rpi4b"]
        assert run([*asked, "--server", coordinator.url]) == ExitCode.MISS
        assert f"rpi4b: {A72}\n" in capfd.readouterr().err

    @pytest.mark.parametrize(
        ("given", "target"),
        [([], A72), (["--target", "llvm -num-cores=1"], A72.replace("=4", "=1"))],
        ids=["no target", "a part of it"],
    )
    def test_a_job_that_is_submitted_is_for_the_whole_target(
        self,
        coordinator: RunningCoordinator,
        store: Store,
        model: Path,
        capfd: pytest.CaptureFixture[str],
        given: list[str],
        target: str,
    ) -> None:
        store.boards.report("rpi4b", "pi-1", REPORT)
        asked = ["submit", str(model), "--boards", "rpi4b", "--trials", "4", *given]
        assert run([*asked, "--server", coordinator.url, "--json"]) == ExitCode.OK
        assert printed(capfd)["target"] == target
        assert run([*asked, "--server", coordinator.url]) == ExitCode.OK
        assert f"for {target}" in capfd.readouterr().out

    @pytest.mark.parametrize(
        ("arguments", "code", "said"),
        [
            ([], ExitCode.USAGE, "no target is given"),
            (["--boards", "rpi4b"], ExitCode.BAD_TARGET, "the board class rpi4b has no defaults"),
            (["--boards", "rpi4b", "--target", "llvm"], ExitCode.BAD_TARGET, "no -mtriple"),
        ],
    )
    @pytest.mark.parametrize("command", ["lookup", "tune", "migrate"])
    def test_what_no_class_completes_is_refused(
        self,
        store: Store,
        model: Path,
        capfd: pytest.CaptureFixture[str],
        command: str,
        arguments: list[str],
        code: ExitCode,
        said: str,
    ) -> None:
        assert run([command, str(model), *arguments]) == code
        assert said in capfd.readouterr().err

    def test_a_database_that_is_not_there_yet_completes_nothing(
        self, model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        new = str(tmp_path / "new.db")
        asked = ["tune", str(model), "--target", "llvm", "--boards", "rpi4b", "--db", new]
        assert run(asked) == ExitCode.BAD_TARGET
        assert "no -mtriple" in capfd.readouterr().err
        assert not Path(new).exists()


def add_suspects(store: Store, count: int) -> None:
    """So many suspect records of the board pi-1 of class rpi4b."""
    measure(store, conv(), {f"module-{number}": success(1e-3) for number in range(count)})
    run_sql(store.url, "UPDATE records SET suspect = 1, board_class = 'rpi4b', board = 'pi-1'")


def printed(capfd: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capfd.readouterr().out)
