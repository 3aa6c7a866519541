"""The board server of an emulated board: a guest of QEMU's user mode."""

from __future__ import annotations

import logging
import os

from tunebook.cache.errors import BoardError
from tunebook.workers.boards.board_supervisor import ServerCommand, SupervisionLimits
from tunebook.workers.boards.counting_emulator import COUNT_FILE, counting_emulator
from tunebook.workers.boards.emulated_sysroot import Sysroot
from tunebook.workers.boards.guest_packages import SERVER_MODULE, guest_packages

_log = logging.getLogger(__name__)

EMULATED_CLASS = "emulated-aarch64"
# More would only take turns on the host's.
EMULATED_CORES = 1
# A guest starts in 2 s on an idle machine and is slow to answer on a busy one.
GUEST_LIMITS = SupervisionLimits(appear=120.0, silence=60.0)


def guest_server(sysroot: Sysroot, cpu: str) -> ServerCommand:
    """How to start a board server in the guest; the guest reads the server's modules from here.

    It counts instructions where this machine can, and says once why where it cannot. Raises
    BoardError.
    """
    environment = os.environ | {
        "TVM_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    packages, server = guest_packages(), ["-m", SERVER_MODULE]
    guest_python = sysroot.guest_python(cpu, packages)
    try:
        emulator = counting_emulator(guest_python)
    except BoardError as error:
        _log.warning(
            "the emulated board goes by wall time, which ranks schedules badly, and not by "
            "instructions executed: %s",
            error,
        )
        return ServerCommand([*sysroot.command(cpu, packages), *server], environment)
    command = [*emulator, *guest_python, *server, "--count-file", str(COUNT_FILE)]
    return ServerCommand(command, environment)
