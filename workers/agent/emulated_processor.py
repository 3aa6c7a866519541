"""The processor of an emulated board, which no file of this machine tells of."""

from __future__ import annotations

from tunebook.workers.agent.board_readings import Processor
from tunebook.workers.boards.guest_server import EMULATED_CORES

EMULATED_CPU = "max"


def emulated_processor() -> Processor:
    """QEMU's core that has every extension; which those are, its server tells."""
    return Processor(
        cpu_model=f"QEMU {EMULATED_CPU}, an emulated AArch64 core",
        mtriple="aarch64-linux-gnu",
        mcpu="",
        features=(),
        cores=EMULATED_CORES,
    )
