"""A hit rate is shown as it is, and never better."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunebook.service.dashboard.rates import Rate

COUNTS = st.integers(1, 10**9).flatmap(
    lambda lookups: st.tuples(st.integers(0, lookups), st.just(lookups))
)


@pytest.mark.parametrize(
    ("hits", "lookups", "text", "standing"),
    [
        (0, 0, "-", ""),
        (0, 7, "0 %", "poor"),
        (1, 100_000, "0.1 %", "poor"),
        (1, 3, "33.3 %", "poor"),
        (9, 10, "90.0 %", "fair"),
        (989, 1000, "98.9 %", "fair"),
        (99, 100, "99.0 %", "good"),
        (99_999, 100_000, "99.9 %", "good"),
        (7, 7, "100 %", "good"),
    ],
)
def test_a_rate_is_rounded_down_and_only_what_always_hits_is_100(
    hits: int, lookups: int, text: str, standing: str
) -> None:
    rate = Rate(hits, lookups)
    assert (rate.text, rate.standing) == (text, standing)


@given(COUNTS)
def test_what_is_shown_is_less_than_a_tenth_off(counts: tuple[int, int]) -> None:
    hits, lookups = counts
    shown = float(Rate(hits, lookups).percent)
    assert abs(shown - 100 * hits / lookups) <= 0.1 + 1e-9
    assert (shown == 100) == (hits == lookups)
    assert (shown == 0) == (hits == 0)


def test_a_rate_of_nothing_has_a_bar_that_is_seen() -> None:
    assert Rate(0, 5).width == "1"


def test_rates_add_up_by_their_look_ups() -> None:
    assert Rate(1, 1) + Rate(0, 3) == Rate(1, 4)
