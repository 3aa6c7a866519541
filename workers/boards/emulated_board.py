"""An AArch64 board without hardware: QEMU's user mode runs the board server as a guest.

It proves code generation, cross-linking, RPC and numbers on true AArch64 code. Its wall time ranks
schedules badly, so where this machine can, it counts the instructions that a kernel executes
instead. Neither is ever served unless asked for by name.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from tunebook.cache.errors import BoardError
from tunebook.tuner.trials.trials import BoardAddress
from tunebook.workers.boards import board_server
from tunebook.workers.boards.board_supervisor import (
    BoardSupervisor,
    ServerCommand,
    SupervisionLimits,
)
from tunebook.workers.boards.counting_emulator import COUNT_FILE, counting_emulator
from tunebook.workers.boards.emulated_sysroot import Sysroot, emulated_sysroot
from tunebook.workers.boards.tracker import running_tracker

_log = logging.getLogger(__name__)

EMULATED_CLASS = "emulated-aarch64"
# More would only take turns on the host's.
EMULATED_CORES = 1
# A guest starts in 2 s on an idle machine and is slow to answer on a busy one.
LIMITS = SupervisionLimits(appear=120.0, silence=60.0)


@contextmanager
def emulated_board(cpu: str = "max", board_class: str = EMULATED_CLASS) -> Iterator[BoardAddress]:
    """A board of `board_class` that emulates `cpu`, registered and stopped on exit.

    `cpu` is QEMU's name of a core: `max` has every extension, `cortex-a72` raises SIGILL where
    code needs more than that core has. The first one made on a machine takes about a minute
    (emulated_sysroot). Raises BoardError.
    """
    server = guest_server(emulated_sysroot(), cpu)
    name = f"qemu-{cpu}"
    with (
        running_tracker() as tracker,
        BoardSupervisor(server, tracker, board_class, name=name, limits=LIMITS),
    ):
        # It runs on this machine's cores, but its timings are worth nothing anyway: nobody has
        # to stop building while it measures.
        yield BoardAddress(tracker.host, tracker.port, board_class, emulated=True)


def guest_server(sysroot: Sysroot, cpu: str) -> ServerCommand:
    """How to start a board server in the guest; the guest reads the server's file from here.

    It counts instructions where this machine can, and says once why where it cannot.
    """
    environment = os.environ | {
        "TVM_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    guest_python, script = sysroot.guest_python(cpu), board_server.__file__
    try:
        emulator = counting_emulator(guest_python)
    except BoardError as error:
        _log.warning(
            "the emulated board goes by wall time, which ranks schedules badly, and not by "
            "instructions executed: %s",
            error,
        )
        return ServerCommand([*sysroot.command(cpu), script], environment)
    command = [*emulator, *guest_python, script, "--count-file", str(COUNT_FILE)]
    return ServerCommand(command, environment)
