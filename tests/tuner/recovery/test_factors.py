"""Tile sizes for a new extent."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunebook.tuner.recovery.factors import UNLIMITED, nearest, repaired, sampled, still_holds

DECISIONS = st.lists(st.integers(1, 64), min_size=2, max_size=5)
EXTENTS = st.integers(1, 5_000)
LIMITS = st.sampled_from([UNLIMITED, 1, 16, 32, 64])


@given(DECISIONS, EXTENTS, LIMITS)
def test_the_product_of_the_nearest_factors_is_the_extent(
    decision: list[int], extent: int, limit: int
) -> None:
    factors = nearest(decision, extent, limit)
    assert math.prod(factors) == extent
    assert len(factors) == len(decision)


@given(DECISIONS, EXTENTS, LIMITS.filter(lambda limit: limit != UNLIMITED))
def test_the_innermost_factor_exceeds_its_limit_only_where_it_did_before(
    decision: list[int], extent: int, limit: int
) -> None:
    assert nearest(decision, extent, limit)[-1] <= max(limit, decision[-1])


@given(DECISIONS, LIMITS)
def test_the_nearest_of_an_unchanged_extent_is_the_same_decision(
    decision: list[int], limit: int
) -> None:
    assert nearest(decision, math.prod(decision), limit) == tuple(decision)


@given(DECISIONS, st.integers(1, 100))
def test_inner_factors_that_fit_stay_and_the_outermost_takes_the_rest(
    decision: list[int], outermost: int
) -> None:
    extent = outermost * math.prod(decision[1:])
    assert nearest(decision, extent) == (outermost, *decision[1:])
    assert still_holds(decision, extent)


@pytest.mark.parametrize(
    ("decision", "extent", "expected"),
    [
        ([8, 4, 2, 2], 128, (8, 4, 2, 2)),
        ([8, 4, 2, 2], 256, (16, 4, 2, 2)),
        ([8, 4, 2, 2], 126, (7, 3, 2, 3)),
        ([8, 4, 2, 2], 127, (127, 1, 1, 1)),
        ([1, 1, 1, 1], 2, (2, 1, 1, 1)),
        ([2, 64], 96, (2, 48)),
        ([1, 224], 256, (1, 256)),
    ],
)
def test_the_nearest_factors_of_known_cases(
    decision: list[int], extent: int, expected: tuple[int, ...]
) -> None:
    assert nearest(decision, extent) == expected


@pytest.mark.parametrize(
    ("decision", "extent", "expected"),
    [
        ([8, 4, 2, 2], 127, (1, 1, 1, 127)),
        ([8, 4, 2, 2], 256, (16, 4, 2, 2)),
        ([8, 4, 2, 2], 24, (1, 6, 2, 2)),
        ([1, 1, 64, 2], 32, (1, 1, 16, 2)),
    ],
)
def test_a_factor_that_no_longer_divides_becomes_all_that_is_left(
    decision: list[int], extent: int, expected: tuple[int, ...]
) -> None:
    assert repaired(decision, extent) == expected
    assert not still_holds(decision, extent) or expected[1:] == tuple(decision[1:])


@given(DECISIONS, EXTENTS, LIMITS, st.integers(0, 2**32))
def test_a_random_factorisation_is_valid_and_repeatable(
    decision: list[int], extent: int, limit: int, seed: int
) -> None:
    factors = sampled(decision, extent, limit, chance=Random(seed))
    assert math.prod(factors) == extent
    assert limit == UNLIMITED or factors[-1] <= max(limit, decision[-1])
    assert factors == sampled(decision, extent, limit, chance=Random(seed))


def test_a_random_factorisation_differs_by_seed_and_is_seldom_far() -> None:
    drawn = Counter(sampled([4, 4, 2, 4], 96, chance=Random(seed)) for seed in range(300))
    assert len(drawn) > 10
    assert drawn[nearest([4, 4, 2, 4], 96)] == max(drawn.values())
    assert drawn[(1, 1, 1, 96)] == 0
