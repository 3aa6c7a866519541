"""Boards to test, and kernels that do what kernels should not."""

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
from tunebook.tuner.trials.trials import BoardAddress
from tunebook.workers.boards.local_board import local_board
from tunebook.workers.boards.tracker import TrackerAddress, query_tracker

sys.path.insert(0, str(Path(__file__).parent))

HOST_COMPILER = "cc"
AARCH64_COMPILER = "aarch64-linux-gnu-g++"
# A tracker that shares its machine with other tests may be slow to answer.
PATIENCE_SECONDS = 60.0

# TVM's calling convention: a 16-byte value is a type index, padding, and the content.
PROGRAM = """
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
struct value { int32_t type; int32_t padding; int64_t content; };
#ifdef __cplusplus
extern "C"
#endif
int __tvm_ffi_main(void* self, const struct value* arguments, int count, struct value* result) {
  int64_t number = arguments[0].content;
  {body};
  result->type = 1;
  result->padding = 0;
  result->content = number;
  return 0;
}
"""

KernelMaker = Callable[..., Path]


@pytest.fixture
def kernel(tmp_path: Path) -> KernelMaker:
    """Compiles a library whose entry point takes an integer `number`, runs `body`, returns it."""

    def make(body: str, compiler: str = HOST_COMPILER) -> Path:
        if shutil.which(compiler) is None:
            pytest.skip(f"no {compiler} here")
        source = tmp_path / "kernel.c"
        source.write_text(PROGRAM.replace("{body}", body))
        library = tmp_path / f"kernel-{len(list(tmp_path.glob('*.so')))}.so"
        options = ["-O1", "-shared", "-fPIC"]
        subprocess.run([compiler, *options, "-o", library, source], check=True)
        return library

    return make


@dataclass(frozen=True)
class BoardInUse:
    """A board with what a client does to it."""

    address: BoardAddress

    @property
    def tracker(self) -> TrackerAddress:
        return TrackerAddress(self.address.tracker_host, self.address.tracker_port)

    def registered(self) -> RegisteredBoard:
        """The one board of this class at its tracker."""
        known = query_tracker(self.tracker, PATIENCE_SECONDS)
        (found,) = known.boards_of(self.address.board_class)
        return found

    def session(self, limit: float = 60) -> Any:
        """A session of at most `limit` seconds, 0 for no limit."""
        tracker = rpc.connect_tracker(self.tracker.host, self.tracker.port)
        return tracker.request(self.address.board_class, session_timeout=limit)

    def call(self, library: Path, number: int, limit: float = 60) -> int:
        """Upload and call a kernel in a session of its own."""
        session = self.session(limit)
        session.upload(str(library))
        return int(session.load_module(library.name)["main"](number))


@pytest.fixture(scope="module")
def board() -> Iterator[BoardInUse]:
    with local_board(num_cores=1) as address:
        yield BoardInUse(address)


@pytest.fixture(scope="session")
def in_use() -> Callable[[BoardAddress], BoardInUse]:
    return BoardInUse
