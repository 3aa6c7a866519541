"""Replays real traces with something wrong in them, in a process that may die: run by a test.

    python hostile_replays.py SEED TRACES

Each line that it prints is `refused`, `raised` or `replayed`; what ends the process is the mutant
whose line is missing.
"""

from __future__ import annotations

import copy
import json
import random
import sys
from typing import Any

import tvm
from near_programs import A76, X86, conv, int8_dense, matmul, random_traces, row_sums

from tunebook.cache.errors import UntrustedTraceError
from tunebook.cache.misses import MissReason
from tunebook.cache.records import Source
from tunebook.cache.untrusted.trace_grammar import INSTRUCTIONS
from tunebook.tuner.recovery.adaptation import NearTrace, adapt
from tunebook.tuner.traces.replay import replay

NUMBERS = [0, -1, -2, 1, 2, 3, 7, 64, 4096, 10**9, 2**31, -(2**31), 2**62]
VALUES = [*NUMBERS, None, True, 1.5, "None", '"x"', "b0", "b1", "l2", "l9", "v5", "b999", [], [1]]
REASONS = (MissReason.OTHER_SHAPE, MissReason.OTHER_FUSION, MissReason.OTHER_TARGET)


def mutated(trace: str, chance: random.Random) -> str:
    instructions, decisions = copy.deepcopy(json.loads(trace))
    for _ in range(chance.choice([1, 1, 2, 3])):
        place = chance.randrange(len(instructions))
        instruction = instructions[place]
        what = chance.randrange(7)
        if what == 0:
            instruction[0] = chance.choice(sorted(INSTRUCTIONS))
        elif what == 1:
            instructions.insert(place, copy.deepcopy(chance.choice(instructions)))
        elif what == 2:
            instructions.pop(place)
            decisions = [[n - (n > place), value] for n, value in decisions if n != place]
        elif what == 3 and decisions:
            _put_wrong(chance.choice(decisions), chance)
        elif what == 4:
            # Another variable of the right letter is what passes the check most often.
            _swap_variable(instructions, instruction, chance)
        else:
            _put_wrong(instruction[chance.choice([1, 2, 3])], chance)
    return json.dumps([instructions, decisions])


def _put_wrong(holder: list[Any], chance: random.Random) -> None:
    if holder and isinstance(holder[-1], list) and holder[-1] and chance.random() < 0.7:
        holder = holder[-1]
    if not holder:
        holder.append(chance.choice(VALUES))
    holder[chance.randrange(len(holder))] = chance.choice(VALUES)


def _swap_variable(instructions: list[Any], instruction: Any, chance: random.Random) -> None:
    given = [name for one in instructions for name in one[3] if isinstance(name, str)]
    for position, value in enumerate(instruction[1]):
        alike = [name for name in given if isinstance(value, str) and name[:1] == value[:1]]
        if alike:
            instruction[1][position] = chance.choice(alike)


def outcome(program: Any, tir: str, target: str, trace: str, reason: MissReason) -> str:
    near = [NearTrace(trace, reason, "a mutant")]
    adapt(tir, target, near, source=Source.MIGRATION, seed=1, limit=3)
    try:
        replay(program, trace)
    except UntrustedTraceError:
        return "refused"
    except Exception:
        return "raised"
    return "replayed"


def main(seed: int, traces: int) -> None:
    chance = random.Random(seed)
    programs = [
        (tir, target, tvm.ir.load_json(tir), random_traces(tir, target, 3, seed=seed))
        for tir, target in (
            (matmul(32, 32, 32, add=True), X86),
            (conv(8), X86),
            (row_sums(256, "x"), X86),
            (int8_dense(32), A76),
        )
    ]
    for number in range(traces):
        tir, target, program, found = chance.choice(programs)
        trace = mutated(chance.choice(found), chance)
        print(outcome(program, tir, target, trace, REASONS[number % len(REASONS)]), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
