"""Traces are untrusted code: only what is listed here is ever replayed.

A trace that was put into the database from outside can compile text of its own into the product
(the annotations `pragma_import_llvm` and `pragma_import_c` do just that), and comparing numbers
would not notice. Or it can end the process that replays it. So instruction kinds, annotation keys,
and every value have their list (`trace_grammar`, `index_maps`).

The JSON form of a trace is `[instructions, decisions]`, an instruction
`[kind, inputs, attributes, outputs]`, a decision `[index of the instruction, value]`.
"""

from __future__ import annotations

import json
from typing import Any

from tunebook.cache.errors import UntrustedTraceError
from tunebook.cache.untrusted.index_maps import check_index_map
from tunebook.cache.untrusted.trace_grammar import (
    ANNOTATIONS,
    INSTRUCTIONS,
    LAYOUTS,
    SAMPLINGS,
    complaint,
    shown,
    wrong_decision,
)

__all__ = ["ANNOTATIONS", "INSTRUCTIONS", "LENGTH_LIMIT", "SIZE_LIMIT", "check_trace"]

SIZE_LIMIT = 4 * 1024 * 1024
# The longest that the search wrote for the models we know has a few hundred instructions. What a
# replay costs grows with the cube of the loops: 500 nested ones take 2 s, 1,000 take 15.
LENGTH_LIMIT = 2_000
LOOPS_LIMIT = 500
BLOCKS_LIMIT = 100
_COMPUTING_AT = frozenset({"ComputeAt", "ReverseComputeAt"})
_MAKING_LOOPS = frozenset({"Split"})
_MAKING_BLOCKS = frozenset({"CacheRead", "CacheWrite", "RFactor", "Blockize", "DecomposeReduction"})


def check_trace(trace: object) -> None:
    """Raises UntrustedTraceError, naming the instruction or annotation, for a trace that holds
    anything outside the lists, is malformed, is no text (SQLite stores values of any type in any
    column), or is too large; never any other error."""
    if not isinstance(trace, str):
        raise UntrustedTraceError(f"the trace is refused: it is {type(trace).__name__}, no text")
    if len(trace) > SIZE_LIMIT:
        raise UntrustedTraceError(
            f"the trace is refused: {len(trace)} characters, more than {SIZE_LIMIT}"
        )
    try:
        _check(trace)
    except _Refused as refused:
        raise UntrustedTraceError(f"the trace is refused: {refused}") from None


class _Refused(Exception):
    """What is wrong, in words."""


def _no_constant(name: str) -> Any:
    raise _Refused(f"it holds the number {name}")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def _check(trace: str) -> None:
    try:
        parsed = _DECODER.decode(trace)
    except (ValueError, RecursionError):
        raise _Refused("it is not JSON of a trace") from None
    if not isinstance(parsed, list) or len(parsed) != 2:
        raise _Refused("it is not a list of instructions and a list of decisions")
    instructions, decisions = parsed
    if not isinstance(instructions, list) or not isinstance(decisions, list):
        raise _Refused("it is not a list of instructions and a list of decisions")
    if len(instructions) > LENGTH_LIMIT:
        raise _Refused(f"it has {len(instructions)} instructions, more than {LENGTH_LIMIT}")
    locations: set[str] = set()
    for number, instruction in enumerate(instructions):
        wrong = (
            complaint(instruction)
            or _wrong_layout(instruction)
            or _wrong_loop(instruction, locations)
        )
        if wrong is not None:
            raise _Refused(f"instruction {number} {wrong}")
    for what, kinds, limit in (
        ("loops", _MAKING_LOOPS, LOOPS_LIMIT),
        ("blocks", _MAKING_BLOCKS, BLOCKS_LIMIT),
    ):
        made = sum(len(one[3]) for one in instructions if one[0] in kinds)
        if made > limit:
            raise _Refused(f"it makes {made} {what}, more than {limit}")
    _check_decisions(instructions, decisions)


def _wrong_layout(instruction: list[Any]) -> str | None:
    """A layout's second input is a program of its own: how the new index follows from the old."""
    if instruction[0] not in LAYOUTS:
        return None
    wrong = check_index_map(instruction[1][1])
    return f"({instruction[0]}) has an index map that {wrong}" if wrong else None


def _wrong_loop(instruction: list[Any], locations: set[str]) -> str | None:
    """A location to compute at need not be a loop: as one, it ends the process. Adds what the
    instruction gives to `locations`."""
    kind, inputs, _, outputs = instruction
    if kind == "SampleComputeLocation":
        locations.update(outputs)
    elif locations and kind not in _COMPUTING_AT:
        for one in inputs:
            if type(one) is str and one in locations:
                return f"({kind}) takes the location {one} for a loop"
    return None


def _check_decisions(instructions: list[list[Any]], decisions: list[Any]) -> None:
    """Each sampling has one decision: drawn anew, it would schedule to another module each time."""
    undecided = {n for n, instruction in enumerate(instructions) if instruction[0] in SAMPLINGS}
    for decision in decisions:
        if type(decision) is not list or len(decision) != 2:
            raise _Refused(f"it has the decision {shown(decision)}")
        number, value = decision
        if type(number) is not int or number not in undecided:
            raise _Refused(f"it has the decision {shown(decision)}, for which nothing asks")
        if wrong_decision(instructions[number], value):
            kind = instructions[number][0]
            raise _Refused(f"instruction {number} ({kind}) has the decision {shown(value)}")
        undecided.remove(number)
    for number in sorted(undecided):
        raise _Refused(f"instruction {number} ({instructions[number][0]}) has no decision")
