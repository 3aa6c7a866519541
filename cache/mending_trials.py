"""How many trials a mending command asks for: so many for each of the misses that it mends."""

from __future__ import annotations

import re
from dataclasses import replace

from tunebook.cache.misses import Miss, MissGroup

# A round's worth: enough for the search to leave its first guesses behind.
TRIALS_A_MISS = 16

_MORE = re.compile(r"--more \d+")


def more(trials: int) -> str:
    """The option of a command that searches."""
    return f"--more {trials}"


def alike(miss: Miss) -> Miss:
    """The miss with the command that mends it alone: those of several look-ups, whose commands are
    for as many as each missed, then compare."""
    return replace(miss, mending_command=_for_misses(miss.mending_command, 1))


def mended_together(group: MissGroup) -> MissGroup:
    """The group with the command that mends all of it."""
    return replace(group, mending_command=_for_misses(group.mending_command, len(group.misses)))


def _for_misses(command: str, count: int) -> str:
    return _MORE.sub(more(TRIALS_A_MISS * count), command)
