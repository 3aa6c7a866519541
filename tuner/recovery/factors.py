"""Factorisations of an extent into tile sizes: the nearest to an old one, or a random one.

A tile decision is a list of factors, outermost first, whose product is the extent of the loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from random import Random

UNLIMITED = -1
# Where all weights are too small for a number.
_NEVER_NONE = 1e-300


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
    wanted = _scaled(decision, extent)
    limit = _limit(decision, extent, innermost_limit)

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
    decision: Sequence[int], extent: int, innermost_limit: int = UNLIMITED, *, chance: Random
) -> tuple[int, ...]:
    """A random factorisation of `extent`, within the same limit, the nearer the likelier.

    A factorisation at the distance d of `nearest` is drawn with a probability that falls as
    exp(-d): evenly drawn ones are hardly ever good (measured: two to eight times slower).
    """
    count = len(decision)
    wanted = _scaled(decision, extent)
    limit = _limit(decision, extent, innermost_limit)

    @cache
    def weights(left: int, place: int) -> tuple[tuple[int, float], ...]:
        """The factors for one place, each with the weight of all that can follow from it."""
        if place == 0:
            return ((left, math.exp(-((math.log2(left) - wanted[0]) ** 2))),)
        return tuple(
            (
                factor,
                math.exp(-((math.log2(factor) - wanted[place]) ** 2))
                * sum(weight for _, weight in weights(left // factor, place - 1)),
            )
            for factor in _divisors(left)
            if place < count - 1 or factor <= limit
        )

    factors: list[int] = []
    for place in reversed(range(count)):
        offered = weights(extent // math.prod(factors), place)
        (factor,) = chance.choices(
            [one for one, _ in offered], [weight or _NEVER_NONE for _, weight in offered]
        )
        factors.append(factor)
    return tuple(reversed(factors))


def _scaled(decision: Sequence[int], extent: int) -> list[float]:
    """The logarithms of the factors, the outermost scaled so that the product is the extent."""
    wanted = [math.log2(factor) for factor in decision]
    wanted[0] = math.log2(extent) - sum(wanted[1:])
    return wanted


def _limit(decision: Sequence[int], extent: int, innermost_limit: int) -> int:
    return extent if innermost_limit == UNLIMITED else max(innermost_limit, decision[-1])


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
