"""The boards that a worker says it has: those of this machine, and those that trackers know."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from tunebook.cache.errors import BoardError, UsageError
from tunebook.cache.queue.fleet import ServedBoard
from tunebook.tuner.llvm_targets import host_target, resolve_target
from tunebook.workers.boards.board_classes import BoardClass, board_classes
from tunebook.workers.boards.board_supervisor import BoardSupervisor
from tunebook.workers.boards.host_server import host_server
from tunebook.workers.boards.tracker import running_tracker

A53 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53 -num-cores=4"
X86 = "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64 -num-cores=2"
LAB = "lab"


@pytest.mark.parametrize(
    ("named", "tracker", "names"),
    [
        (["local"], None, ["local"]),
        (["emulated-aarch64", "local"], None, ["emulated-aarch64", "local"]),
        (["pi@192.0.2.1:9190", "rock@192.0.2.2:9190"], None, ["pi", "rock"]),
        (["pi", "rock"], "192.0.2.1:9190", ["pi", "rock"]),
        (["pi", "local"], "192.0.2.1:9190", ["pi", "local"]),
    ],
)
def test_boards_are_named_with_their_tracker_or_share_one(
    named: list[str], tracker: str | None, names: list[str]
) -> None:
    assert [one.name for one in board_classes(named, tracker)] == names


@pytest.mark.parametrize(
    ("named", "tracker", "says"),
    [
        (["pi"], None, "needs a tracker"),
        (["@192.0.2.1:9190"], None, "CLASS or CLASS@HOST:PORT"),
        (["pi@"], None, "CLASS or CLASS@HOST:PORT"),
        (["pi@nowhere"], None, "HOST:PORT"),
        (["local", "local"], None, "more than once"),
        ([], "192.0.2.1:9190", "--tracker needs --boards"),
        (["pi.quarantined"], "192.0.2.1:9190", "name pi$"),
    ],
)
def test_boards_that_do_not_fit_together_are_refused(
    named: list[str], tracker: str | None, says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        board_classes(named, tracker)


def test_without_names_this_machine_is_served() -> None:
    assert "local" in [one.name for one in board_classes([], None)]


@pytest.mark.parametrize(
    ("name", "target", "says"),
    [
        ("emulated-aarch64", X86, "cannot run"),
        ("local", A53 if host_target().mtriple.startswith("x86") else X86, "cannot run code for"),
    ],
)
def test_a_class_says_why_its_boards_cannot_run_a_targets_code(
    name: str, target: str, says: str
) -> None:
    (one,) = board_classes([name], None)
    assert says in (one.why_not(resolve_target(target)) or "")


def test_this_machine_runs_its_own_code() -> None:
    (one,) = board_classes(["local"], None)
    assert one.why_not(host_target()) is None


def test_of_boards_at_a_tracker_only_real_ones_of_this_machine_share_its_processor() -> None:
    with running_tracker() as tracker:
        named = [f"{LAB}@{tracker}", f"emulated-aarch64@{tracker}"]
        assert [one.on_this_machine for one in board_classes(named, None)] == [False, False]
        with (
            BoardSupervisor(host_server(1), tracker, LAB),
            BoardSupervisor(host_server(1), tracker, "emulated-aarch64"),
        ):
            assert [one.on_this_machine for one in board_classes(named, None)] == [True, False]


@pytest.mark.slow
def test_boards_come_and_go_at_their_tracker_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture, eventually: Callable[..., None]
) -> None:
    caplog.set_level(logging.INFO)
    with running_tracker() as tracker:
        (lab,) = board_classes([f"{LAB}@{tracker}"], None)
        assert lab.look() == ()
        assert not lab.is_there
        with BoardSupervisor(host_server(1), tracker, LAB, name="bench-3"):
            eventually(lambda: lab.look() != (), "the board is there")
            assert lab.is_there
            (board,) = lab.look()
        eventually(lambda: lab.look() == (), "the board is gone")
    assert (board.board_class, board.board, board.emulated) == (LAB, "bench-3", False)
    assert lab.look() == (), "nor where the tracker is gone"
    said = [one.getMessage() for one in caplog.records if one.name.endswith("board_classes")]
    assert said[:2] == [f"no board of class {LAB} is there: none is registered", "boards are there"]
    assert said[2].startswith(f"no board of class {LAB} is there")


def test_a_board_that_cannot_be_had_is_away_for_a_while() -> None:
    """Nothing that is there fails to open by itself: the fault is faked."""
    now = [0.0]

    def fail() -> object:
        raise BoardError("no room for its sysroot")

    board = ServedBoard(LAB, "bench-3", emulated=False, cores=4)
    lab = BoardClass(
        LAB,
        fail,  # type: ignore[arg-type]
        lambda: [board],
        lambda _: None,
        on_this_machine=False,
        monotonic=lambda: now[0],
    )
    assert lab.look() == (board,)
    with pytest.raises(BoardError):
        lab.open(host_target())
    assert not lab.is_there
    assert lab.look() == ()
    now[0] += 60.0
    assert lab.look() == (board,)
