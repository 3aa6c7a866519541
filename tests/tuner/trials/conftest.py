"""Boards, build processes, and kernels that do what none should."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tvm import rpc

from tunebook.cache.boards.registrations import RegisteredBoard
from tunebook.cache.records import Candidate
from tunebook.tuner.llvm_targets import resolve_target
from tunebook.tuner.splitting.program import Program
from tunebook.tuner.trials.build_pool import BuildPool
from tunebook.tuner.trials.measuring import Measurer
from tunebook.tuner.trials.trials import BoardAddress, BuildRequest, BuiltLibrary
from tunebook.workers.boards.board_supervisor import BoardSupervisor, SupervisionLimits
from tunebook.workers.boards.emulated_board import emulated_board
from tunebook.workers.boards.emulated_sysroot import QEMU
from tunebook.workers.boards.host_server import host_server
from tunebook.workers.boards.local_board import LOCAL_BOARD_CLASS
from tunebook.workers.boards.tracker import TrackerAddress, query_tracker, running_tracker

# These tests share modules of their own, which importlib mode does not look for.
sys.path.insert(0, str(Path(__file__).parent))

from trial_samples import candidates_of, matmul

CORES = 2

# TVM's calling convention: 16 bytes an argument, of which the last 8 are a DLTensor's address, or
# where the type says so that of an object which has it after 24 bytes; a DLTensor begins with the
# address of its data.
C_KERNEL = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <unistd.h>
struct argument { int32_t type; int32_t padding; char* tensor; };
static float* data(struct argument* one) {
  return *(float**)(one->type == 70 ? one->tensor + 24 : one->tensor);
}
/* Filled in by TVM when it loads the library, as it does for the libraries that it compiles. */
int (*__TVMBackendParallelLaunch)(int (*)(int, int**, void*), void*, int);
static int task(int number, int** group, void* count) {
  *(int*)count = (int)(intptr_t)group[1];
  return 0;
}
__attribute__((constructor)) static void loaded(void) { {when_loaded}; }
int __tvm_ffi_main(void* self, struct argument* arguments, int count, void* result) {
  float* read = data(arguments);
  float* written = data(arguments + count - 1);
  {body};
  return 0;
}
"""


@pytest.fixture(scope="session")
def host() -> str:
    return str(resolve_target("host", num_cores=CORES))


@pytest.fixture(scope="session")
def matmul_program() -> Program:
    return matmul()


@pytest.fixture(scope="session")
def matmul_candidates(matmul_program: Program, host: str) -> list[Candidate]:
    return candidates_of(matmul_program, host)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BuildPool]:
    with BuildPool(1, 60, tmp_path_factory.mktemp("libraries")) as pool:
        yield pool


@pytest.fixture(scope="module")
def build(pool: BuildPool, host: str) -> Callable[..., BuiltLibrary]:
    """Builds a program, unscheduled or by a candidate, for this machine or another."""

    def make(
        program: Program, candidate: Candidate | None = None, target: str = host
    ) -> BuiltLibrary:
        trace = candidate.trace if candidate else None
        built = pool.submit(BuildRequest(program.tir, target, trace)).result()
        assert isinstance(built, BuiltLibrary), built
        return built

    return make


@pytest.fixture
def kernel(tmp_path: Path) -> Callable[..., BuiltLibrary]:
    """A library whose entry point runs a body of C, with `read` and `written` as its buffers, and
    that runs another one whenever it is loaded."""

    def make(body: str, compiler: str = "cc", when_loaded: str = "") -> BuiltLibrary:
        if shutil.which(compiler) is None:
            pytest.skip(f"no {compiler} here")
        name = f"kernel-{len(list(tmp_path.glob('*.so')))}"
        source, library = tmp_path / f"{name}.c", tmp_path / f"{name}.so"
        text = C_KERNEL.replace("{body}", body).replace("{when_loaded}", when_loaded)
        source.write_text(text)
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
        return BuiltLibrary(library, name, None, 0, 0.0)

    return make


@dataclass(frozen=True)
class BoardInUse:
    """A board, and the process behind it."""

    address: BoardAddress
    eventually: Callable[..., None]

    def registered(self) -> RegisteredBoard:
        """The board as it is registered, once it is alone there after a test that killed it."""
        found: list[RegisteredBoard] = []
        tracker = TrackerAddress(self.address.tracker_host, self.address.tracker_port)

        def is_alone() -> bool:
            found[:] = query_tracker(tracker).boards_of(self.address.board_class)
            return len(found) == 1

        self.eventually(is_alone, "the board is registered once")
        return found[0]


@pytest.fixture(scope="module")
def board(eventually: Callable[..., None]) -> Iterator[BoardInUse]:
    """This machine, as `local_board` makes it, but not started anew where it only stands still."""
    limits = SupervisionLimits(appear=120.0, silence=300.0)
    server = host_server(CORES)
    with (
        running_tracker() as tracker,
        BoardSupervisor(server, tracker, LOCAL_BOARD_CLASS, limits=limits),
    ):
        address = BoardAddress(tracker.host, tracker.port, LOCAL_BOARD_CLASS, shares_host=True)
        yield BoardInUse(address, eventually)


@pytest.fixture(scope="module")
def arm_board() -> Iterator[BoardAddress]:
    """An emulated AArch64 board that has every extension."""
    yield from _emulated("max")


@pytest.fixture(scope="module")
def a72_board() -> Iterator[BoardAddress]:
    """An emulated AArch64 board without dot products."""
    yield from _emulated("cortex-a72")


def _emulated(cpu: str) -> Iterator[BoardAddress]:
    if shutil.which(QEMU) is None:
        pytest.skip(f"no {QEMU}: apt-get install qemu-user-static")
    with emulated_board(cpu=cpu) as address:
        yield address


@pytest.fixture
def arm_session(arm_board: BoardAddress) -> Iterator[Any]:
    """A plain RPC session on the emulated board."""
    tracker = rpc.connect_tracker(arm_board.tracker_host, arm_board.tracker_port)
    session = tracker.request(arm_board.board_class, session_timeout=120)
    yield session
    session.get_function("CloseRPCConnection")()


@pytest.fixture
def measurer(board: BoardInUse) -> Iterator[Measurer]:
    """Its sessions last for minutes: no kernel is ended where only this machine stands still."""
    with Measurer(board.address, num_cores=CORES, board_timeout=60, run_timeout=60) as measurer:
        yield measurer


@pytest.fixture
def soon_over(measurer: Measurer, board: BoardInUse) -> Callable[[float], Measurer]:
    """The same for a kernel without end: a session of two run times and two seconds."""

    def make(run_timeout: float) -> Measurer:
        return Measurer(
            board.address,
            num_cores=CORES,
            board_timeout=60,
            run_timeout=run_timeout,
            holder=measurer._holder,
        )

    return make
