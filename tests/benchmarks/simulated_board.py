"""A board that answers after the seconds that a trial was recorded to take, without computing.

    python simulated_board.py --recorded FILE --busy FILE, and the board server's arguments

It is the board server, with two functions of its sessions replaced: one loads a library and begins
a trial, the other times kernels. A trial occupies the board for the recorded seconds of a trial of
the same program, which the library's content chooses, so that a library takes the same each time;
its kernel's time is the recorded one too. Each trial's beginning and end on the monotonic clock,
which all processes of a machine share, are written to the file of busy intervals. Verifying calls
kernels, and those are run; it is not counted as busy.

The file of records is JSON: `programs` gives, by the program's buffers, pairs of kernel and board
seconds; programs that are not in it have those of all others.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm_ffi
from tvm.rpc import server

from tunebook.workers.boards import board_server

_server_env = server._server_env


@dataclass
class _Trial:
    """A library that was loaded: when, and whether it was timed by now."""

    digest: bytes
    began: float
    timed: bool = False


class SimulatedBoard:
    """What recorded trials took, and the trial that the board is at."""

    def __init__(self, recorded: Path, busy: Path) -> None:
        document = json.loads(recorded.read_text())
        scale = float(document.get("scale", 1.0))
        self._programs: dict[str, list[tuple[float, float]]] = {
            buffers: [(kernel, board * scale) for kernel, board in trials]
            for buffers, trials in document["programs"].items()
        }
        self._all = [trial for trials in self._programs.values() for trial in trials]
        self._busy = busy
        self._loaded: dict[int, _Trial] = {}
        self._last: _Trial | None = None

    def loads(self, library: Path) -> None:
        """A trial begins."""
        self._last = _Trial(hashlib.sha256(library.read_bytes()).digest(), time.monotonic())

    def times(self, buffers: str, repeat: int) -> bytes:
        """The kernel's time, so many times; the first call for a library lasts until the trial's
        board seconds have passed."""
        trial = self._last
        assert trial is not None, "a library is loaded before it is timed"
        recorded = self._programs.get(buffers, self._all)
        kernel, board = recorded[int.from_bytes(trial.digest[:8], "big") % len(recorded)]
        if not trial.timed:
            trial.timed = True
            time.sleep(max(0.0, trial.began + board - time.monotonic()))
            with self._busy.open("a") as file:
                file.write(f"{trial.began:.6f} {time.monotonic():.6f}\n")
        return struct.pack("@" + "d" * repeat, *[kernel] * repeat)


def _buffers(arguments: Sequence[Any]) -> str:
    return " ".join(f"{one.dtype}{list(one.shape)}".replace(" ", "") for one in arguments)


def simulate(board: SimulatedBoard) -> None:
    """Replaces what sessions of this process's server do."""

    def environment(load_library: Any, folder: Any = None) -> Any:
        given = _server_env(load_library, folder)
        load = tvm_ffi.get_global_func("tvm.rpc.server.load_module")

        def load_module(name: str) -> Any:
            board.loads(Path(folder.relpath(name)))
            return load(name)

        def evaluator(
            module: Any, name: str, kind: int, number: int, calls: int, repeat: int, *more: Any
        ) -> Any:
            return lambda *arguments: board.times(_buffers(arguments), repeat)

        tvm_ffi.register_global_func("tvm.rpc.server.load_module", load_module, override=True)
        tvm_ffi.register_global_func("runtime.RPCTimeEvaluator", evaluator, override=True)
        return given

    server._server_env = environment


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recorded", type=Path, required=True)
    parser.add_argument("--busy", type=Path, required=True)
    given, others = parser.parse_known_args()
    sys.argv[1:] = others
    simulate(SimulatedBoard(given.recorded, given.busy))
    board_server.main(others)
