"""Factorisations of an extent into tile sizes: the nearest to an old one, or a random one.

A tile decision is a list of factors, outermost first, whose product is the extent of the loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import pairwise
from random import Random

UNLIMITED = -1
_TRIES = 64


def repaired(decision: Sequence[int], extent: int) -> tuple[int, ...]:
    """What TVM silently makes of a decision that was taken for another extent.

    From the innermost outwards, a factor that does not divide what is left becomes all of it; the
    outermost is what remains (`SamplePerfectTile` in TVM's schedule/primitive/sampling.cc).
    """
    factors = list(decision)
    left = extent
    for place in range(len(factors) - 1, 0, -1):
        if left % factors[place]:
            factors[place] = left
        left //= factors[place]
    factors[0] = left
    return tuple(factors)


def still_holds(decision: Sequence[int], extent: int) -> bool:
    """Whether all factors but the outermost, which takes what remains, fit the extent."""
    return repaired(decision, extent)[1:] == tuple(decision[1:])


def nearest(
    decision: Sequence[int], extent: int, innermost_limit: int = UNLIMITED
) -> tuple[int, ...]:
    """The factorisation of `extent` into as many factors that lies nearest to `decision`.

    Nearest in the sum of squared differences of logarithms, after the outermost factor was scaled
    so that the product is the extent: a factor that doubles is as far as one that halves, and a
    decision whose inner factors fit stays as it is. The innermost factor, which is vectorised,
    exceeds `innermost_limit` only where it did before. Of equally near ones the one with the
    larger inner factors. Found by dynamic programming over the divisors of the extent.
    """
    count = len(decision)
    wanted = [math.log2(factor) for factor in decision]
    wanted[0] = math.log2(extent) - sum(wanted[1:])
    limit = extent if innermost_limit == UNLIMITED else max(innermost_limit, decision[-1])

    @cache
    def best(left: int, place: int) -> tuple[float, tuple[int, ...]]:
        """The cheapest factors for the places up to `place`, whose product is `left`."""
        if place == 0:
            return (math.log2(left) - wanted[0]) ** 2, (left,)
        cheapest: tuple[float, tuple[int, ...]] | None = None
        for factor in reversed(_divisors(left)):
            if place == count - 1 and factor > limit:
                continue
            cost, outer = best(left // factor, place - 1)
            cost += (math.log2(factor) - wanted[place]) ** 2
            if cheapest is None or cost < cheapest[0] - 1e-9:
                cheapest = (cost, (*outer, factor))
        assert cheapest is not None  # 1 divides everything
        return cheapest

    return best(extent, count - 1)[1]


def sampled(
    extent: int, count: int, innermost_limit: int = UNLIMITED, *, chance: Random
) -> tuple[int, ...]:
    """A random factorisation of `extent` into `count` factors, the innermost within its limit.

    Each prime's exponent is spread evenly over the ways to split it up, as TVM does.
    """
    factors = [1] * count
    for _ in range(_TRIES):
        factors = [1] * count
        for prime, exponent in _prime_powers(extent):
            for place, share in enumerate(_spread(exponent, count, chance)):
                factors[place] *= prime**share
        if count == 1 or innermost_limit == UNLIMITED or factors[-1] <= innermost_limit:
            return tuple(factors)
    factors[0] *= factors[-1]
    factors[-1] = 1
    return tuple(factors)


def _spread(total: int, count: int, chance: Random) -> list[int]:
    """`count` numbers of 0 or more whose sum is `total`, each such list as likely as another."""
    bars = sorted(chance.sample(range(total + count - 1), count - 1))
    edges = [-1, *bars, total + count - 1]
    return [after - before - 1 for before, after in pairwise(edges)]


@lru_cache(maxsize=1024)
def _divisors(number: int) -> tuple[int, ...]:
    found = [1]
    for prime, exponent in _prime_powers(number):
        found = [one * prime**power for one in found for power in range(exponent + 1)]
    return tuple(sorted(found))


@lru_cache(maxsize=1024)
def _prime_powers(number: int) -> tuple[tuple[int, int], ...]:
    powers = []
    prime = 2
    while prime * prime <= number:
        exponent = 0
        while number % prime == 0:
            number //= prime
            exponent += 1
        if exponent:
            powers.append((prime, exponent))
        prime += 1
    if number > 1:
        powers.append((number, 1))
    return tuple(powers)
