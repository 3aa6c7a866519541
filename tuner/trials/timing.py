"""How often a kernel is run: until its times agree, or the trial has cost enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import median

# One repeat runs the kernel for at least this long, so that the clock's steps do not matter.
_REPEAT_SECONDS = 0.005
_REPEATS = 3
# So many more at most where the times of those do not agree.
_MORE_REPEATS = 6
# (largest - smallest) / median below which times agree.
_SPREAD = 0.05
# What a trial may cost, once it has three repeats, and before it has.
_ENOUGH_SECONDS = 0.05
_LIMIT_SECONDS = 0.5
# A kernel that is this much slower than the best known one needs no exact time: one repeat is
# enough of a long one, and three repeats of any that do not agree.
_HOPELESS = 5.0
_NO_CONTENDER = 1.5

# What a record says of its seconds where they are instructions, one a nanosecond.
INSTRUCTIONS = "instructions"
SECONDS_PER_INSTRUCTION = 1e-9

# Runs the kernel (1 + number x repeat) times, the first not timed; gives each repeat's mean.
RunKernel = Callable[[int, int], Sequence[float]]


def time_kernel(run: RunKernel, best_seconds: float | None = None) -> tuple[float, ...]:
    """Seconds per call, one for each repeat kept.

    Three calls of `run` at most, since each is a round trip to the board: a first one to learn how
    long the kernel takes, one for the repeats that are needed, and where these do not agree one
    for as many more as 50 ms allow, unless the fastest is far from `best_seconds`. A kernel of more
    than some 100 ms gets fewer than three repeats, and one much slower than the best only one.
    """
    (first,) = run(1, 1)
    number = max(1, math.ceil(_REPEAT_SECONDS / max(first, 1e-6)))
    kept = [first] if number == 1 else []
    spent = 2 * first
    if kept and best_seconds is not None and first > _HOPELESS * best_seconds:
        return (first,)
    repeats = _REPEATS - len(kept)
    if kept:
        repeats = min(repeats, int((_LIMIT_SECONDS - spent) / first) - 1)
    if repeats > 0:
        times = run(number, repeats)
        kept.extend(times)
        spent += number * sum(times)
        contends = best_seconds is None or min(kept) < _NO_CONTENDER * best_seconds
        if contends and spread(kept) > _SPREAD and spent < _ENOUGH_SECONDS:
            kept.extend(run(number, _more_repeats(number * median(kept), spent)))
    return tuple(kept)


def _more_repeats(seconds: float, spent: float) -> int:
    """How many repeats of so many seconds there is time for, at least one."""
    if seconds <= 0:
        return _MORE_REPEATS
    return min(_MORE_REPEATS, math.ceil((_ENOUGH_SECONDS - spent) / seconds))


def spread(seconds: Sequence[float]) -> float:
    """How far times lie apart, as a share of their median; infinite where that is 0."""
    middle = median(seconds)
    return (max(seconds) - min(seconds)) / middle if middle > 0 else math.inf
