"""Durations as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunebook.cache.errors import UsageError
from tunebook.service.durations import parse_duration, show_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("10m", 600), ("1.5h", 5400), (" 2 m ", 120), ("0.5s", 0.5)],
)
def test_a_number_with_or_without_a_unit_is_a_duration(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5m", "0", "0s", "5d", "1:30", "m", "1e3", "٣m"])
def test_anything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(UsageError, match="is no duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (42.4, "0:42"), (185, "3:05"), (3729, "1:02:09")]
)
def test_durations_are_shown_as_clocks_show_them(seconds: float, text: str) -> None:
    assert show_duration(seconds) == text


@given(st.integers(1, 10**6))
def test_whole_seconds_come_back(seconds: int) -> None:
    assert parse_duration(f"{seconds}s") == seconds
