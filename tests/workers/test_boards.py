"""Which boards a command uses."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from tunebook.cache.boards.registrations import RegisteredBoard
from tunebook.cache.errors import BoardError, TargetError, UsageError
from tunebook.cache.targets import Target
from tunebook.tuner.llvm_targets import resolve_target
from tunebook.workers.boards.boards import is_here, plan_boards, target_for_boards
from tunebook.workers.boards.local_board import local_board
from tunebook.workers.boards.server.machine import boot_id
from tunebook.workers.boards.tracker import TrackerAddress, running_tracker

ARM = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=1"


@pytest.fixture(scope="module")
def host() -> Target:
    return resolve_target("host")


@pytest.fixture(scope="module")
def foreign() -> Target:
    other = "aarch64" if os.uname().machine == "x86_64" else "x86_64"
    return resolve_target(f"llvm -mtriple={other}-linux-gnu -num-cores=1")


def test_without_a_name_this_machine_is_the_board(host: Target) -> None:
    plan = plan_boards(host, None, None)
    assert (plan.board_class, plan.emulated) == ("local", False)


def test_a_tracker_and_a_class_are_taken_as_they_are(foreign: Target) -> None:
    with running_tracker() as tracker:
        plan = plan_boards(foreign, "rpi4", str(tracker))
        with plan.open() as address:
            assert (address.tracker_host, address.tracker_port) == (tracker.host, tracker.port)
            assert address.board_class == plan.board_class == "rpi4"
            assert not address.emulated
            assert not address.shares_host


def test_a_board_of_this_machine_is_known_behind_any_tracker(host: Target) -> None:
    with local_board(1) as board:
        tracker = f"localhost:{board.tracker_port}"
        with plan_boards(host, board.board_class, tracker).open() as address:
            assert address.shares_host


def test_a_board_at_the_end_of_a_tunnel_is_not_this_machine() -> None:
    """Both are reached at this machine's own address: their kernels tell them apart."""
    tracker = TrackerAddress("127.0.0.1", 9190)
    own = RegisteredBoard("rpi4", "127.0.0.1", 9201, boot=boot_id())
    tunnelled = replace(own, boot="8d2c0e51-7f2b-4c55-9a38-000000000000")
    silent = replace(own, boot="")
    assert boot_id() != ""
    assert [is_here(board, tracker) for board in (own, tunnelled, silent)] == [True, False, True]


def test_a_tracker_that_does_not_answer_is_named(host: Target) -> None:
    with (
        pytest.raises(BoardError, match=r"127\.0\.0\.1:1 does not answer"),
        plan_boards(host, "rpi4", "127.0.0.1:1").open(),
    ):
        pass


def test_a_board_class_supplies_the_cores_that_a_target_does_not_name(host: Target) -> None:
    spelling = str(host).replace(f" -num-cores={host.num_cores}", "")
    with local_board(1) as board:
        tracker = f"{board.tracker_host}:{board.tracker_port}"
        completed = target_for_boards(spelling, board.board_class, tracker)
        named = target_for_boards(f"{spelling} -num-cores=7", board.board_class, tracker)
    assert str(completed) == str(host)
    assert named.num_cores == 7


def test_the_emulated_board_has_one_core() -> None:
    spelling = ARM.replace(" -num-cores=1", "")
    assert str(target_for_boards(spelling, "emulated-aarch64", None)) == ARM


def test_a_class_that_nobody_registered_supplies_nothing(host: Target) -> None:
    with running_tracker() as tracker, pytest.raises(TargetError, match="num-cores"):
        target_for_boards("llvm -mtriple=aarch64-linux-gnu", "rpi4", str(tracker))


def test_the_emulated_board_is_asked_for_by_name() -> None:
    plan = plan_boards(resolve_target(ARM), "emulated-aarch64", None)
    assert (plan.board_class, plan.emulated) == ("emulated-aarch64", True)


@pytest.mark.parametrize(
    ("boards", "tracker", "words"),
    [
        (None, "h:1", "--boards CLASS"),
        ("rpi4", None, "--tracker HOST:PORT"),
        ("rpi4", "h", "HOST:PORT, for example 192.0.2.1:9190, not 'h'"),
        ("rpi4", ":1", "HOST:PORT"),
        ("rpi4", "h:port", "HOST:PORT"),
        ("rpi4", "h:0", "HOST:PORT"),
        ("rpi4", "h:99999", "HOST:PORT"),
        ("rpi4", "h:1/path", "HOST:PORT"),
        ("rpi4", "me@h:1", "HOST:PORT"),
        ("rpi4", "[::1:9190", "HOST:PORT"),
        ("rpi4.quarantined", "h:1", "name rpi4$"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(
    boards: str | None, tracker: str | None, words: str, host: Target
) -> None:
    with pytest.raises(UsageError, match=words):
        plan_boards(host, boards, tracker)


def test_another_architecture_needs_a_board_of_it(foreign: Target) -> None:
    with pytest.raises(BoardError, match="--boards CLASS --tracker HOST:PORT"):
        plan_boards(foreign, None, None)


def test_the_emulated_board_runs_no_other_architecture() -> None:
    target = resolve_target("llvm -mtriple=x86_64-linux-gnu -num-cores=1")
    with pytest.raises(BoardError, match="AArch64"):
        plan_boards(target, "emulated-aarch64", None)
