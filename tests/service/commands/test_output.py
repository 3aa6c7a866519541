"""How figures look in what people read."""

from __future__ import annotations

import pytest

from tunebook.service.output import show_seconds


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "-"),
        (8.12e-7, "812 ns"),
        (2.4e-9, "2 ns"),
        (1e-6, "1.0 us"),
        (1.23e-5, "12.3 us"),
        (4.5671e-3, "4.567 ms"),
    ],
)
def test_a_run_time_is_shown_in_the_unit_that_fits_it(seconds: float | None, shown: str) -> None:
    assert show_seconds(seconds) == shown
