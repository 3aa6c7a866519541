"""Trials on all boards of a class: real board servers on loopback, taken for boards elsewhere."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from process_looks import measuring_processes
from trial_samples import elementwise

from tunebook.cache.boards.registrations import RegisteredBoard
from tunebook.cache.errors import BoardError
from tunebook.cache.records import ErrorClass, Measurement
from tunebook.tuner.splitting.program import Program
from tunebook.tuner.trials.board_pool import BoardPool
from tunebook.tuner.trials.board_trials import _GONE_SECONDS
from tunebook.tuner.trials.measuring import Measurer
from tunebook.tuner.trials.target_boards import TargetBoards
from tunebook.tuner.trials.trials import BoardAddress, BuiltLibrary, OpenedBoard
from tunebook.workers.boards.board_supervisor import BoardSupervisor, SupervisionLimits
from tunebook.workers.boards.host_server import host_server
from tunebook.workers.boards.tracker import TrackerAddress, query_tracker, running_tracker

BOARD_CLASS = "rack"
BOARDS = 3
# A session lasts for two of them and two seconds more: for minutes, so that no kernel is ended
# where only this machine stands still.
RUN_SECONDS = 60.0
# Nor is a board started anew for that.
LIMITS = SupervisionLimits(appear=120.0, silence=300.0)

# Waits in its first run until so many kernels have begun theirs, each on a board of its own; for
# as long as a board lets it.
MEET = """
  char name[64];
  sprintf(name, "{folder}/%d", {number});
  fclose(fopen(name, "w"));
  for (int other = 0; other < {count}; other++) {{
    sprintf(name, "{folder}/%d", other);
    while (access(name, F_OK)) usleep(1000);
  }}
"""
# What it does in its first run, and in no other.
ONCE = 'if (access("{marker}", F_OK)) {{ fclose(fopen("{marker}", "w")); {body}; }}'
KILL_SERVER = "kill(getppid(), SIGKILL); pause()"
STOP_SERVER = "kill(getppid(), SIGSTOP); pause()"

KernelMaker = Callable[..., BuiltLibrary]


@pytest.fixture(scope="module")
def program() -> Program:
    return elementwise(lambda x: x + 1.0)


@dataclass(frozen=True)
class Rack:
    """Boards at a tracker."""

    tracker: TrackerAddress

    @property
    def address(self) -> BoardAddress:
        return BoardAddress(self.tracker.host, self.tracker.port, BOARD_CLASS)

    def registered(self) -> Sequence[RegisteredBoard]:
        return query_tracker(self.tracker).boards_of(BOARD_CLASS)


def board_server(tracker: TrackerAddress, number: int) -> BoardSupervisor:
    return BoardSupervisor(
        host_server(1), tracker, BOARD_CLASS, name=f"rack-{number}", limits=LIMITS
    )


@pytest.fixture(scope="module")
def rack() -> Iterator[Rack]:
    with ExitStack() as stack:
        tracker = stack.enter_context(running_tracker())
        for number in range(BOARDS):
            stack.enter_context(board_server(tracker, number))
        yield Rack(tracker)


@pytest.fixture
def all_there(rack: Rack, eventually: Callable[..., None]) -> Iterator[Rack]:
    """The rack, once all its boards are free, whatever a test before did to them."""

    def are_free() -> bool:
        found = rack.registered()
        free = query_tracker(rack.tracker).queues[BOARD_CLASS].free
        return len(found) == free == BOARDS

    eventually(are_free, "all boards are there again")
    yield rack


@contextmanager
def pool_of(
    rack: Rack, most: int = BOARDS, run_timeout: float = RUN_SECONDS, **options: object
) -> Iterator[TargetBoards]:
    with BoardPool(
        rack.address,
        most_boards=most,
        run_timeout=run_timeout,
        **options,  # type: ignore[arg-type]
    ) as pool:
        yield TargetBoards(pool, num_cores=1)


def an_hour_a_minute() -> float:
    """A pool's clock, for what waits as long as a board may be away. The tracker has a minute of
    the true one for its answer."""
    return 60 * time.monotonic()


def measured(
    boards: TargetBoards, program: Program, kernels: Sequence[BuiltLibrary]
) -> list[Measurement]:
    """All kernels' measurements, asked for at once."""
    asked = [boards.submit(lambda board, one=one: board.measure(one, program)) for one in kernels]
    return [one.result() for one in asked]


def meeting(kernel: KernelMaker, folder: Path, count: int) -> list[BuiltLibrary]:
    """Kernels that wait for one another."""
    folder.mkdir()
    return [
        kernel(MEET.format(folder=folder, number=number, count=count)) for number in range(count)
    ]


def once(kernel: KernelMaker, tmp_path: Path, body: str) -> BuiltLibrary:
    return kernel(ONCE.format(marker=tmp_path / "begun", body=body))


def test_all_boards_measure_at_once(
    all_there: Rack, kernel: KernelMaker, program: Program, tmp_path: Path
) -> None:
    kernels = meeting(kernel, tmp_path / "met", BOARDS)
    with pool_of(all_there) as boards:
        found = measured(boards, program, kernels)
    assert [one.error for one in found] == [None] * BOARDS
    assert {one.board for one in found} == {"rack-0", "rack-1", "rack-2"}


class TestStarting:
    def test_before_the_first_trial_is_what_that_trial_uses(
        self, all_there: Rack, kernel: KernelMaker, program: Program
    ) -> None:
        with pool_of(all_there, most=1) as boards:
            boards.pool.start()
            early = measuring_processes()
            assert len(early) == 1
            assert measured(boards, program, [kernel("")])[0].error is None
            assert measuring_processes() == early

    def test_that_fails_costs_the_first_trial_nothing(
        self, all_there: Rack, kernel: KernelMaker, program: Program
    ) -> None:
        with pool_of(all_there, most=1) as boards:
            boards.pool.start()
            measuring_processes()[0].kill()
            assert measured(boards, program, [kernel("")])[0].error is None

    def test_is_ended_by_closing(self, all_there: Rack) -> None:
        with pool_of(all_there) as boards:
            boards.pool.start()
            assert len(measuring_processes()) == 1
        assert measuring_processes() == []


def test_no_more_boards_are_used_than_a_worker_may(
    all_there: Rack, kernel: KernelMaker, program: Program
) -> None:
    with pool_of(all_there, most=1) as boards:
        found = measured(boards, program, [kernel("") for _ in range(4)])
        assert boards.pool.boards == 1
    assert len({one.board for one in found}) == 1


def test_a_board_that_appears_is_used(
    kernel: KernelMaker, program: Program, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    folder = tmp_path / "met"
    kernels = meeting(kernel, folder, 2)
    with (
        running_tracker() as tracker,
        board_server(tracker, 0),
        ExitStack() as later,
        BoardPool(Rack(tracker).address, most_boards=BOARDS, run_timeout=60) as pool,
    ):
        boards = TargetBoards(pool, num_cores=1)
        asked = [
            boards.submit(lambda board, one=one: board.measure(one, program)) for one in kernels
        ]
        eventually(lambda: any(folder.iterdir()), "the first waits for the second")
        later.enter_context(board_server(tracker, 1))
        found = [one.result() for one in asked]
    assert [one.board for one in found] == ["rack-0", "rack-1"]


def test_a_trial_whose_board_dies_is_repeated_on_another(
    all_there: Rack, kernel: KernelMaker, program: Program, tmp_path: Path
) -> None:
    deadly = once(kernel, tmp_path, KILL_SERVER)
    with pool_of(all_there) as boards:
        found = measured(boards, program, [deadly, *[kernel("") for _ in range(4)]])
    assert [one.error for one in found] == [None] * 5
    # What the lost board spent is charged too: it took a while until it was known to be gone.
    assert found[0].board_seconds > _GONE_SECONDS


@pytest.mark.slow
def test_a_trial_whose_board_hangs_is_repeated_on_another(
    all_there: Rack, kernel: KernelMaker, program: Program, tmp_path: Path
) -> None:
    hanging = once(kernel, tmp_path, STOP_SERVER)
    with pool_of(all_there, run_timeout=5) as boards:
        found = measured(boards, program, [hanging, *[kernel("") for _ in range(4)]])
    assert [one.error for one in found] == [None] * 5
    # The tracker offers the hung board to nobody; its supervisor would start another in a while.
    hung = {one.name: one for one in all_there.registered()}
    for board in hung.values():
        assert board.pid is not None
        os.kill(board.pid, signal.SIGCONT)


def test_a_trial_that_brings_board_after_board_down_ends_as_lost(
    all_there: Rack, kernel: KernelMaker, program: Program
) -> None:
    with pool_of(all_there) as boards:
        (found,) = measured(boards, program, [kernel(KILL_SERVER)])
    assert found.error is ErrorClass.BOARD_LOST
    assert found.board_seconds > 0


def test_boards_without_work_are_given_back(
    all_there: Rack, kernel: KernelMaker, program: Program, eventually: Callable[..., None]
) -> None:
    with pool_of(all_there) as boards:
        measured(boards, program, [kernel("") for _ in range(4)])

        def are_free() -> bool:
            return query_tracker(all_there.tracker).queues[BOARD_CLASS].free == BOARDS

        eventually(are_free, "all boards are free, while the pool is open")


def test_whoever_comes_later_gets_boards_while_another_has_work(
    all_there: Rack, kernel: KernelMaker, program: Program
) -> None:
    plain = kernel("")
    # Sessions that end soon, so that boards are given back amid the work.
    with pool_of(all_there, run_timeout=0.5) as first, pool_of(all_there) as second:
        latecomer = None
        waiting = [first.submit(lambda board: board.measure(plain, program)) for _ in range(50)]
        while latecomer is None or not latecomer.done():
            waiting = [one for one in waiting if not one.done()]
            more = 50 - len(waiting)
            waiting += [
                first.submit(lambda board: board.measure(plain, program)) for _ in range(more)
            ]
            waiting[0].result()
            if latecomer is None:
                latecomer = second.submit(lambda board: board.measure(plain, program))
        assert latecomer.result().error is None


def test_a_board_is_asked_about_before_its_first_trial_and_may_be_refused(
    all_there: Rack, kernel: KernelMaker, program: Program
) -> None:
    plain = kernel("")
    seen: dict[str, Measurement] = {}

    def check(board: OpenedBoard, measurer: Measurer) -> str | None:
        seen[board.name] = measurer.measure(plain, program)
        return "it drifted" if board.name == "rack-1" else None

    with pool_of(all_there, check=check) as boards:
        found = measured(boards, program, [plain] * 12)
        # Leaving ends what is measured then, and that may be another board's first.
        asked = dict(seen)
    assert all(name == one.board and one.error is None for name, one in asked.items())
    assert {one.board for one in found} <= asked.keys() & {"rack-0", "rack-2"}


def test_where_all_boards_are_refused_trials_end_with_the_reason(
    all_there: Rack, kernel: KernelMaker, program: Program
) -> None:
    refuse = {"check": lambda *_: "it drifted", "monotonic": an_hour_a_minute}
    with pool_of(all_there, **refuse) as boards:
        asked = boards.submit(lambda board: board.measure(kernel(""), program))
        with pytest.raises(BoardError, match=r"rack-\d is not used: it drifted"):
            asked.result()


def test_a_board_without_the_features_of_a_trial_is_not_used(
    all_there: Rack, kernel: KernelMaker, program: Program
) -> None:
    with BoardPool(all_there.address, run_timeout=RUN_SECONDS, monotonic=an_hour_a_minute) as pool:
        boards = TargetBoards(pool, 1, features=frozenset({"sme2"}))
        asked = boards.submit(lambda board: board.measure(kernel(""), program))
        with pytest.raises(BoardError, match="lacks sme2"):
            asked.result()


def test_a_trial_that_is_not_wanted_by_its_turn_is_not_begun(
    all_there: Rack, kernel: KernelMaker, program: Program
) -> None:
    begun = []
    with pool_of(all_there) as boards:
        asked = boards.submit(begun.append, wanted=lambda: False)
        with pytest.raises(CancelledError):
            asked.result()
    assert begun == []
