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
# A kernel that is this much slower than the best known one needs no exact time: a single run is
# enough of a long one, and one repeat of any, unless that shows that it is not so far behind.
_HOPELESS = 5.0
_NO_CONTENDER = 1.5

# What a record says of its seconds where they are instructions, one a nanosecond.
INSTRUCTIONS = "instructions"
SECONDS_PER_INSTRUCTION = 1e-9

# Runs the kernel (1 + number x repeat) times, the first not timed; gives each repeat's mean.
RunKernel = Callable[[int, int], Sequence[float]]


def time_kernel(run: RunKernel, best_seconds: float | None = None) -> tuple[float, ...]:
    """Seconds per call, one for each repeat kept.

    Few calls of `run`, since each is a round trip to the board: a first one to learn how long the
    kernel takes, one for three repeats, and where these do not agree one for as many more as 50 ms
    allow. A kernel of more than some 100 ms gets fewer repeats, and one whose first run is far from
    `best_seconds` a single one, unless that shows that it may be the best.
    """
    best = math.inf if best_seconds is None else best_seconds
    (first,) = run(1, 1)
    number = max(1, math.ceil(_REPEAT_SECONDS / max(first, 1e-6)))
    kept = [first] if number == 1 else []
    if kept and first > _HOPELESS * best:
        return (first,)
    spent = 2 * first
    repeats = _repeats(first, kept, best)
    while repeats > 0:
        times = run(number, repeats)
        kept.extend(times)
        spent += number * sum(times)
        repeats = _more_repeats(kept, number, spent, best)
    return tuple(kept)


def _repeats(first: float, kept: Sequence[float], best: float) -> int:
    """How many repeats a kernel needs whose first run took so long, and has time for."""
    wanted = 1 if first > _NO_CONTENDER * best else _REPEATS - len(kept)
    return min(wanted, _time_for(first, 2 * first)) if kept else wanted


def _more_repeats(kept: Sequence[float], number: int, spent: float, best: float) -> int:
    """How many repeats more it needs, and has time for."""
    if len(kept) > _REPEATS or min(kept) > _NO_CONTENDER * best:
        return 0
    seconds = number * median(kept)
    if spread(kept) <= _SPREAD or spent >= _ENOUGH_SECONDS:
        return min(_REPEATS - len(kept), _time_for(seconds, spent))
    if seconds <= 0:
        return _MORE_REPEATS
    return min(_MORE_REPEATS, math.ceil((_ENOUGH_SECONDS - spent) / seconds))


def _time_for(seconds: float, spent: float) -> int:
    """How many repeats of so many seconds a trial may still cost, and the run before them."""
    return int((_LIMIT_SECONDS - spent) / seconds) - 1 if seconds > 0 else _REPEATS


def spread(seconds: Sequence[float]) -> float:
    """How far times lie apart, as a share of their median; infinite where that is 0."""
    middle = median(seconds)
    return (max(seconds) - min(seconds)) / middle if middle > 0 else math.inf
