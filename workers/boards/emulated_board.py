"""An AArch64 board without hardware: QEMU's user mode runs the board server as a guest.

It proves code generation, cross-linking, RPC and numbers on true AArch64 code. Its wall time ranks
schedules badly, so where this machine can, it counts the instructions that a kernel executes
instead. Neither is ever served unless asked for by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tunebook.tuner.trials.trials import BoardAddress
from tunebook.workers.boards.board_supervisor import BoardSupervisor
from tunebook.workers.boards.emulated_sysroot import emulated_sysroot
from tunebook.workers.boards.guest_server import EMULATED_CLASS, GUEST_LIMITS, guest_server
from tunebook.workers.boards.tracker import running_tracker


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
        BoardSupervisor(server, tracker, board_class, name=name, limits=GUEST_LIMITS),
    ):
        # It runs on this machine's cores, but its timings are worth nothing anyway: nobody has
        # to stop building while it measures.
        yield BoardAddress(tracker.host, tracker.port, board_class, emulated=True)
