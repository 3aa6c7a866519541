"""The process on a board: a TVM RPC server that outlives the kernels it runs.

The server that TVM brings ends its listening thread when a session's process dies by a signal, so
that one crashing kernel takes the board off the tracker for good. This one speaks the same
protocol with TVM's own message functions, and keeps serving:

- a session that crashes, exceeds the client's time limit, or whose client is gone, is ended with
  everything it started; a client that still waits is told why (`SESSION_ENDED`);
- while idle and while serving it raises a beat counter at the tracker, by which a supervisor on
  another clock tells a living server from a hung one;
- beside it stands what its processor can run, so that code for another is never sent to it;
- on SIGUSR1 it leaves, after the session in hand;
- started by root, it serves as the user that `--run-as` names, with no other rights.

It and its modules (`server/`) need nothing but TVM's runtime: the emulated guest runs them, as
`python -m tunebook.workers.boards.board_server`, with nothing else of Tunebook's installed.
"""

from __future__ import annotations

import os

if __name__ == "__main__":
    # A board only runs: without its compiler TVM starts in half the time. Only before importing
    # tvm, and only in the server's own process.
    os.environ["TVM_USE_RUNTIME_LIB"] = "1"

import ctypes
import logging
import signal
import sys
from pathlib import Path

import tvm
import tvm_ffi
from tvm.rpc import server as rpc_server

from tunebook.workers.boards.server.board_state import board_state
from tunebook.workers.boards.server.instruction_count import InstructionCounter
from tunebook.workers.boards.server.listening import warn_where_everywhere
from tunebook.workers.boards.server.parent_process import follow_parent
from tunebook.workers.boards.server.rights import take_rights_of
from tunebook.workers.boards.server.server_options import ServerOptions, server_options
from tunebook.workers.boards.server.serving import BoardServer
from tunebook.workers.boards.server.trial_calls import COUNT, STATE


def main(arguments: list[str] | None = None) -> None:
    options = server_options(sys.argv[1:] if arguments is None else arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    rpc_server.logger.setLevel(logging.WARNING)
    _prepare_runtime(options)
    _take_rights(options)
    if options.parent_pid is not None:
        # Only now: the kernel forgets it where a process changes its user.
        follow_parent(options.parent_pid)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    warn_where_everywhere(options.host)
    try:
        server = BoardServer(options)
    except OSError as error:
        sys.exit(f"nothing can listen on {options.host}, port {options.port}: {error.strerror}")
    signal.signal(signal.SIGUSR1, lambda *_: server.leave())
    server.serve()


def _prepare_runtime(options: ServerOptions) -> None:
    """Load what the compiler-less runtime leaves out, and what clients may ask this board."""
    name = options.name
    extra = Path(tvm.__file__).parent / "lib" / "libtvm_runtime_extra.so"
    ctypes.CDLL(str(extra), ctypes.RTLD_GLOBAL)
    # For workers of before; others read it in the state.
    tvm_ffi.register_global_func("tunebook.board.name", lambda: name, override=True)
    tvm_ffi.register_global_func(STATE, lambda: board_state(name), override=True)
    if options.count_file is not None:
        count = InstructionCounter(options.count_file).count
        tvm_ffi.register_global_func(COUNT, count, override=True)


def _take_rights(options: ServerOptions) -> None:
    if options.run_as is None:
        return
    try:
        take_rights_of(*options.run_as)
    except OSError as error:
        sys.exit(f"--run-as takes a start by root ({error.strerror}); start it as that user")


if __name__ == "__main__":
    main()
