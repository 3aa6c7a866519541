"""How many loops run rounds at once, and how they keep out of a measurement's way."""

from __future__ import annotations

import os
import threading

from tunebook.tuner.trials.trials import BoardAddress

_NICENESS = 10
# Elsewhere one batch is searched for and built while another is measured, and a third verified.
OVERLAPPING_LOOPS = 3


def loops_on(board: BoardAddress) -> int:
    """One where the board is this machine, so that nothing of ours runs beside a measurement."""
    return 1 if board.shares_host else OVERLAPPING_LOOPS


def give_way() -> None:
    """Makes this thread yield the processor, as build processes do: a search that overlaps a
    measurement must not disturb it."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
