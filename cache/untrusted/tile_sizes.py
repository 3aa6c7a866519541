"""The tile sizes that a trace decided on, read from its text: nothing is replayed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tunebook.cache.untrusted.traces import check_trace

_TILING = "SamplePerfectTile"


@dataclass(frozen=True)
class TileSizes:
    """How one loop was split: its block, the number of the loop among those of the block when it
    was split (0: the outermost), and the factors from the outermost to the innermost.

    `block` is the name that the trace has for it, or empty for one that another instruction gave
    (a cache, a part of a split reduction), whose name only a replay tells.
    """

    block: str
    axis: int
    factors: tuple[int, ...]


def tile_sizes(trace: str) -> tuple[TileSizes, ...]:
    """The tile sizes in the order in which they were sampled.

    Raises UntrustedTraceError for a trace that is refused.
    """
    check_trace(trace)
    instructions, decisions = json.loads(trace)
    decided = dict(map(tuple, decisions))
    names: dict[str, str] = {}
    places: dict[str, tuple[str, int]] = {}
    found = []
    for number, (kind, inputs, attributes, outputs) in enumerate(instructions):
        if kind == "GetSBlock":
            names[outputs[0]] = attributes[0]
        elif kind == "GetLoops":
            _note_loops(places, names.get(inputs[0], ""), outputs)
        elif kind == _TILING:
            block, axis = places.get(inputs[0], ("", 0))
            found.append(TileSizes(block, axis, tuple(decided[number])))
    return tuple(found)


def _note_loops(places: dict[str, tuple[str, int]], block: str, loops: list[Any]) -> None:
    for axis, loop in enumerate(loops):
        places[loop] = (block, axis)
