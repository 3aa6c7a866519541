"""A board that drifts, seen by a real worker with two real board servers on loopback.

What their kernels take is faked (board_of_fixed_times.py): the machine of the tests can neither be
slowed down by as much as a test says, nor be relied on to stay as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from worker_in_a_thread import worker_in_a_thread

from tunebook.cache.board_names import quarantine_class
from tunebook.cache.boards.drift import FEWEST_RUNS
from tunebook.cache.keys import WorkloadKey
from tunebook.cache.model_files import ModelFiles
from tunebook.cache.records import Candidate, Measurement, Model, Task, Workload
from tunebook.cache.store import BoardPeak, RoundProposal, Store
from tunebook.tuner.compiler import compiler_text
from tunebook.tuner.llvm_targets import host_target
from tunebook.tuner.trials.measuring import Measurer
from tunebook.tuner.trials.reference_kernel import reference_program
from tunebook.tuner.trials.trials import BoardAddress, OpenedBoard
from tunebook.workers.boards.board_classes import board_classes
from tunebook.workers.boards.board_supervisor import BoardSupervisor, ServerCommand
from tunebook.workers.boards.host_server import host_server
from tunebook.workers.boards.tracker import TrackerAddress, running_tracker
from tunebook.workers.fleet.fleet_worker import FleetSettings
from tunebook.workers.fleet.reference_checks import ReferenceChecks, ReferenceTimes
from tunebook.workers.fleet.shared_builds import SharedBuilds
from tunebook.workers.rounds.workbench import WorkerSettings, open_build_pool

pytestmark = pytest.mark.slow

LAB = "lab"
STEADY, DRIFTING = "steady", "drifting"
TARGET = str(host_target())
SERVER = Path(__file__).parent / "board_of_fixed_times.py"
TIMES = ReferenceTimes(every=3600, in_quarantine=3)


class Boards:
    """Board servers at one tracker, whose kernels all take the seconds that they are told."""

    def __init__(self, tracker: TrackerAddress, folder: Path, stack: ExitStack) -> None:
        self.tracker = tracker
        self._folder = folder
        self._stack = stack
        self._running: dict[str, BoardSupervisor] = {}

    def take(self, board: str, seconds: float) -> None:
        """What the kernels of a board take from now on."""
        # A server may read it just now.
        new = self._folder / f"{board}.new"
        new.write_text(repr(seconds))
        new.replace(self._folder / board)

    def start(self, board: str, key: str = LAB) -> None:
        command = [sys.executable, str(SERVER), str(self._folder / board)]
        server = ServerCommand(command, host_server(1).environment)
        self._running[board] = BoardSupervisor(server, self.tracker, key, name=board)
        self._stack.enter_context(self._running[board])

    def move(self, board: str, key: str) -> None:
        """What a board's agent does when it is told that its board is in quarantine."""
        self._running[board].stop()
        self.start(board, key)


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever else measures on this machine is no matter where no time is measured."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Boards]:
    with running_tracker() as tracker, ExitStack() as stack:
        found = Boards(tracker, tmp_path_factory.mktemp("boards"), stack)
        for board in (STEADY, DRIFTING):
            found.take(board, 1e-3)
            found.start(board)
        yield found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(str(tmp_path / "tunebook.db")) as opened:
        # Measuring what the board can do at most takes longer than all else here.
        opened.save_board_peak(LAB, TARGET, BoardPeak(1e15, 1e15))
        yield opened


def learn(store: Store, board: str) -> None:
    """What a board whose reference takes a millisecond has measured before."""
    for _ in range(FEWEST_RUNS):
        store.boards.note_reference(LAB, board, [1e-3], {})


def doubt(store: Store, board: str) -> None:
    """Once beyond: the board is to be measured again at once."""
    store.boards.note_reference(LAB, board, [1.5e-3], {})


def measure_and_serve(store: Store, board: str, seconds: float) -> int:
    """A record of a small program, verified, as a worker stores it; gives its id."""
    program = reference_program()
    digest = program.key.hash
    key = WorkloadKey("reference", "f32[4096] -> f32[32]", compiler_text(), digest)
    workload = Workload(key, program.tir, program.flops)
    model = Model("0" * 64, "", TARGET, compiler_text(), "", (Task(workload, 1),))
    job = store.submit_job(store.save_model(model), LAB, trials=1, more=None)
    (task,) = store.task_states(job)
    store.propose_rounds(job, [RoundProposal(task.id, 1, 1.0)])
    claimed = store.claim_round("a test", job)
    assert claimed is not None
    candidate = Candidate("[[], []]", digest)
    (slot,) = store.store_candidates(claimed.id, claimed.epoch, [candidate])
    measured = Measurement(run_seconds=(seconds,), board=board, board_class=LAB)
    record = store.store_result(claimed.id, claimed.epoch, slot.number, measured).record_id
    store.mark_verified(record)
    store.finish_round(claimed.id, claimed.epoch)
    store.finish_job(job, "done")
    return record


@contextmanager
def working(store: Store, boards: Boards, tmp_path: Path) -> Iterator[None]:
    """A worker with nothing to do but to look after its boards."""
    work = replace(WorkerSettings.for_this_machine(board_timeout=60), processes=1)
    settings = FleetSettings(work, references=TIMES)
    classes = board_classes([LAB], str(boards.tracker))
    with worker_in_a_thread(store, ModelFiles(str(tmp_path / "models")), classes, settings):
        yield


@contextmanager
def checking(store: Store) -> Iterator[ReferenceChecks]:
    builds = SharedBuilds(lambda: open_build_pool(WorkerSettings(processes=1)))
    try:
        yield ReferenceChecks(store, builds, TIMES)
    finally:
        builds.close()


def test_a_session_on_a_board_measures_its_reference_and_refuses_one_that_drifted(
    store: Store, boards: Boards
) -> None:
    learn(store, STEADY)
    learn(store, DRIFTING)
    doubt(store, STEADY)
    doubt(store, DRIFTING)
    boards.take(DRIFTING, 3e-3)
    refused: dict[str, str | None] = {}
    address = BoardAddress(boards.tracker.host, boards.tracker.port, LAB)

    with checking(store) as checks:

        def check(board: OpenedBoard, measurer: Measurer) -> None:
            refused[board.name] = checks.why_not(board, measurer)

        with Measurer(address, num_cores=1, board_timeout=60, check=check) as measurer:
            while len(refused) < 2:
                measurer.hold_board()
                measurer.give_board_back()
    assert refused[STEADY] is None
    reason = refused[DRIFTING]
    assert reason is not None
    assert "in quarantine: its reference kernel took 3 ms" in reason
    assert store.boards.quarantined(LAB) == {DRIFTING}


def test_a_board_that_drifts_is_left_out_its_records_are_measured_elsewhere_and_it_comes_back(
    store: Store, boards: Boards, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    for board in (STEADY, DRIFTING):
        learn(store, board)
    record = measure_and_serve(store, DRIFTING, seconds=2e-3)
    doubt(store, DRIFTING)
    boards.take(DRIFTING, 1.5e-3)

    def quarantine() -> str:
        return store.boards.quarantine(LAB, DRIFTING)

    with working(store, boards, tmp_path):
        eventually(lambda: bool(quarantine()), "the board that drifted is in quarantine", 300)
        assert "1.5 ms, twice in a row 50% slower than its own 1 ms" in quarantine()
        eventually(lambda: not store.record(record).suspect, "it was measured again elsewhere", 300)
        measured = store.record(record).measurement
        assert (measured.board, measured.seconds) == (STEADY, 1e-3)
        assert store.record(record).verified
        assert store.boards.quarantine(LAB, STEADY) == ""

        boards.move(DRIFTING, quarantine_class(LAB))
        boards.take(DRIFTING, 1.01e-3)
        eventually(lambda: not quarantine(), "the board came back", 300)
    repeats = store.catalogue.record(record).repeats
    assert repeats == 1
