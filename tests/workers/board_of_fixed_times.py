"""A board whose kernels take what a file says, in seconds: this board server, which runs every
kernel and then tells that time instead of what it took.

Only so can a board drift by as much as a test says, and not at all otherwise: the machine of the
tests is no good board. Arguments are the server's own, after the file.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tvm_ffi

from tunebook.workers.boards import board_server
from tunebook.workers.boards.server.server_options import ServerOptions

EVALUATOR = "runtime.RPCTimeEvaluator"


def tell_times_of(file: Path) -> None:
    evaluator = tvm_ffi.get_global_func(EVALUATOR)

    def told(
        module: Any, name: str, kind: int, device: int, number: int, repeat: int, *more: Any
    ) -> Callable[..., bytes]:
        run = evaluator(module, name, kind, device, 1, repeat, *more)

        def run_and_tell(*arguments: Any) -> bytes:
            took = bytes(run(*arguments))
            return struct.pack(f"{len(took) // 8}d", *[float(file.read_text())] * (len(took) // 8))

        return run_and_tell

    tvm_ffi.register_global_func(EVALUATOR, told, override=True)


if __name__ == "__main__":
    prepare_runtime = board_server._prepare_runtime
    file = Path(sys.argv[1])

    def prepare(options: ServerOptions) -> None:
        prepare_runtime(options)
        tell_times_of(file)

    board_server._prepare_runtime = prepare
    board_server.main(sys.argv[2:])
