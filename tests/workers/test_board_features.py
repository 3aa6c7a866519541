"""Boards tell what their processors can run, in LLVM's words, and code for others is refused."""

from __future__ import annotations

import shutil

import pytest

from tunebook.cache.boards.registrations import RegisteredBoard
from tunebook.cache.errors import BoardError, TargetError
from tunebook.tuner.board_features import GENERATED, missing_features, needed_features
from tunebook.tuner.llvm_targets import host_target, resolve_target
from tunebook.workers.boards.board_supervisor import BoardSupervisor
from tunebook.workers.boards.boards import plan_boards
from tunebook.workers.boards.emulated_board import emulated_board
from tunebook.workers.boards.emulated_sysroot import QEMU
from tunebook.workers.boards.fitting_boards import why_none_fits
from tunebook.workers.boards.host_server import host_server
from tunebook.workers.boards.server.cpu_features import (
    AARCH64_FEATURES,
    X86_FEATURES,
    aarch64_features,
    cpu_features,
    x86_features,
)
from tunebook.workers.boards.server.machine import machine_triple
from tunebook.workers.boards.tracker import TrackerAddress, query_tracker, running_tracker

A72 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -num-cores=4"
A76 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4"
# What Linux tells of a Raspberry Pi 4 and of a 5 in AT_HWCAP.
PI_4 = 0x887
PI_5 = 0x119FFF
LAB = TrackerAddress("192.0.2.1", 9190)


@pytest.mark.parametrize(
    ("words", "features"),
    [
        ((PI_4 & ~0x800, 0), {"fp-armv8", "neon", "crc"}),
        ((1 << 3, 0), set()),
        ((1 << 3 | 1 << 4, 0), {"aes"}),
        ((0, 1 << 13 | 1 << 14), {"i8mm", "bf16"}),
        ((1 << 22, 1 << 1 | 1 << 36), {"sve", "sve2", "sve2p1"}),
    ],
    ids=["Raspberry Pi 4", "half of a feature", "both halves", "second word", "SVE"],
)
def test_hardware_capabilities_are_told_by_llvms_names(
    words: tuple[int, int], features: set[str]
) -> None:
    assert set(aarch64_features(*words)) == features


def test_a_raspberry_pi_5_tells_what_cortex_a76_needs() -> None:
    told = aarch64_features(PI_5, 0)
    assert {"dotprod", "fullfp16", "lse", "rdm"} <= set(told)
    assert missing_features(needed_features(resolve_target(A76)), told) == ()


def test_the_kernels_flags_of_an_x86_are_told_by_llvms_names() -> None:
    told = x86_features("processor\t: 0\nflags\t\t: fpu sse2 pni sse4_1 abm avx512_vnni\nbugs\t:\n")
    assert told == ("avx512vnni", "lzcnt", "sse2", "sse3", "sse4.1")


@pytest.mark.parametrize(
    ("triple", "names"),
    [("aarch64-linux-gnu", AARCH64_FEATURES), ("x86_64-linux-gnu", X86_FEATURES)],
    ids=["AArch64", "x86-64"],
)
def test_llvm_knows_every_feature_that_a_board_can_tell(triple: str, names: object) -> None:
    unknown = []
    for name in names:  # type: ignore[attr-defined]
        try:
            resolve_target(f"llvm -mtriple={triple} -mattr=+{name} -num-cores=1")
        except TargetError:
            unknown.append(name)
    assert unknown == []


@pytest.mark.parametrize(
    ("architecture", "told"), [("aarch64", AARCH64_FEATURES), ("x86_64", X86_FEATURES)]
)
def test_what_is_asked_of_boards_they_can_tell(architecture: str, told: object) -> None:
    assert GENERATED[architecture] - set(told) == set()  # type: ignore[call-overload]


def test_this_machine_tells_what_code_for_it_needs() -> None:
    target = host_target()
    assert needed_features(target) != frozenset()
    assert missing_features(needed_features(target), cpu_features()) == ()
    assert machine_triple() == target.mtriple


def test_encryption_that_no_kernel_uses_is_not_asked_for() -> None:
    """LLVM counts it to the core of the Raspberry Pi 4, which was made without."""
    told = aarch64_features(PI_4, 0)
    assert "aes" not in told
    assert missing_features(needed_features(resolve_target(A72)), told) == ()


@pytest.mark.parametrize(
    ("features", "says"),
    [
        (["neon crc", "neon lse dotprod"], "pi-0 lacks dotprod and fp-armv8 and fullfp16"),
        (["neon crc", " ".join(aarch64_features(PI_5, 0))], None),
        (["", "neon"], None),
        ([], None),
    ],
    ids=["none fits", "one fits", "one tells nothing", "nobody is there"],
)
def test_a_class_none_of_whose_boards_fits_is_refused_in_one_line(
    features: list[str], says: str | None
) -> None:
    boards = [_board(f"pi-{number}", one) for number, one in enumerate(features)]
    reason = why_none_fits(resolve_target(A76), "pi", LAB, boards)
    if says is None:
        assert reason is None
        return
    assert reason is not None
    assert says in reason
    assert "cortex-a76" in reason
    assert "192.0.2.1:9190" in reason
    assert "\n" not in reason


def test_boards_of_another_architecture_are_refused_by_their_triple() -> None:
    target = resolve_target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64 -num-cores=1")
    reason = why_none_fits(target, "pi", LAB, [_board("pi-0", "neon")])
    assert reason is not None
    assert "pi-0 runs aarch64-linux-gnu" in reason


def _board(name: str, features: str) -> RegisteredBoard:
    return RegisteredBoard(
        "pi",
        "192.0.2.9",
        9000,
        name=name,
        features=frozenset(features.split()),
        mtriple="aarch64-linux-gnu",
    )


def test_a_registered_board_is_known_by_what_it_can_run() -> None:
    here = machine_triple()
    other = "x86_64" if here.startswith("aarch64") else "aarch64"
    foreign = resolve_target(f"llvm -mtriple={other}-linux-gnu -num-cores=1")
    with (
        running_tracker() as tracker,
        BoardSupervisor(host_server(1), tracker, "lab", name="bench-3"),
    ):
        (board,) = query_tracker(tracker).boards_of("lab")
        assert board.features == frozenset(cpu_features())
        assert board.mtriple == here
        with plan_boards(host_target(), "lab", str(tracker)).open() as address:
            assert address.features == needed_features(host_target())
        with pytest.raises(BoardError, match=f"bench-3 runs {here}"):
            plan_boards(foreign, "lab", str(tracker))


@pytest.mark.slow
@pytest.mark.emulated
@pytest.mark.skipif(shutil.which(QEMU) is None, reason="apt-get install qemu-user-static")
def test_an_emulated_board_tells_what_its_emulator_has_and_not_what_this_machine_has() -> None:
    with emulated_board(cpu="cortex-a72") as address:
        tracker = TrackerAddress(address.tracker_host, address.tracker_port)
        (board,) = query_tracker(tracker).boards_of(address.board_class)
        assert board.mtriple == "aarch64-linux-gnu"
        assert missing_features(needed_features(resolve_target(A72)), board.features) == ()
        assert "dotprod" in missing_features(needed_features(resolve_target(A76)), board.features)
        with pytest.raises(BoardError, match="qemu-cortex-a72 lacks dotprod"):
            plan_boards(resolve_target(A76), address.board_class, str(tracker))
