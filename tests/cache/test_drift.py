"""Whether a board still measures as it did, judged by its own earlier measurements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunebook.cache.boards.drift import (
    BASE_RUNS,
    FEWEST_RUNS,
    LEAST_SPREAD,
    MOST_SPREAD,
    NEWEST_RUNS,
    Baseline,
    baseline_of,
    describe_drift,
    is_doubtful,
    judge,
)

SECONDS = st.floats(1e-6, 10.0)
STEADY = [1e-3] * BASE_RUNS
# A board whose times scatter by 2 % of their middle, as the median absolute deviation has it.
RESTLESS = [0.96e-3, 0.98e-3, 1.0e-3, 1.02e-3, 1.04e-3] * 4


class Board:
    """A board in time: each measurement is judged by those before it."""

    def __init__(self) -> None:
        self.good: list[float] = []
        self.within: bool | None = None
        self.in_quarantine = False
        self.verdicts: list[bool] = []

    def measures(self, *times: float) -> Board:
        for seconds in times:
            baseline = baseline_of(self.good[:BASE_RUNS], self.good[-NEWEST_RUNS:])
            found = judge(baseline, seconds, before=self.within, in_quarantine=self.in_quarantine)
            self.within, self.in_quarantine = found.within, found.in_quarantine
            self.verdicts.append(found.within)
            if found.within:
                self.good.append(seconds)
        return self


@pytest.mark.parametrize(
    ("earlier", "seconds", "within"),
    [
        (STEADY, 1.0e-3, True),
        (STEADY, 1.04e-3, True),
        (STEADY, 0.96e-3, True),
        (STEADY, 1.06e-3, False),
        (STEADY, 0.94e-3, False),
        (STEADY, 2.0e-3, False),
        (RESTLESS, 1.10e-3, True),
        (RESTLESS, 1.25e-3, False),
        # Up to half of what was measured may have been disturbed.
        ([*[1e-3] * 11, *[5e-3] * 9], 1.02e-3, True),
        # Of a board that scatters as much as this one nobody can say less.
        ([0.5e-3, 1e-3, 2e-3] * 6, 1.45e-3, True),
        ([0.5e-3, 1e-3, 2e-3] * 6, 1.55e-3, False),
    ],
)
def test_a_measurement_is_judged_by_the_boards_own_middle_and_scatter(
    earlier: list[float], seconds: float, within: bool
) -> None:
    baseline = baseline_of(earlier[:BASE_RUNS], earlier[-NEWEST_RUNS:])
    assert baseline is not None
    assert baseline.holds(seconds) is within


@pytest.mark.parametrize("count", range(FEWEST_RUNS))
def test_nobody_judges_by_too_few(count: int) -> None:
    assert baseline_of([1e-3] * count, [1e-3] * count) is None
    assert judge(None, 5e-3, before=True, in_quarantine=False).within


@pytest.mark.parametrize(
    ("times", "in_quarantine"),
    [
        ([], False),
        ([2e-3], False),
        ([2e-3, 2e-3], True),
        ([0.5e-3, 0.5e-3], True),
        # Beyond in any way.
        ([2e-3, 0.5e-3], True),
        # A disturbed moment is no drift, however often there is one.
        ([2e-3, 1e-3, 2e-3, 1e-3, 2e-3], False),
        ([2e-3, 2e-3, 1e-3], True),
        ([2e-3, 2e-3, 1e-3, 1e-3], False),
        ([2e-3, 2e-3, 1e-3, 2e-3, 1e-3], True),
        ([2e-3, 2e-3, 1e-3, 1e-3, 2e-3], False),
    ],
)
def test_two_in_a_row_put_a_board_into_quarantine_and_two_in_a_row_take_it_out(
    times: list[float], in_quarantine: bool
) -> None:
    assert Board().measures(*STEADY, *times).in_quarantine is in_quarantine


@pytest.mark.parametrize(
    ("newest", "in_quarantine", "doubtful"),
    [
        (None, False, False),
        (True, False, False),
        (False, False, True),
        (False, True, False),
        (True, True, True),
    ],
)
def test_what_speaks_against_a_boards_standing_is_measured_again_at_once(
    newest: bool | None, in_quarantine: bool, doubtful: bool
) -> None:
    assert is_doubtful(newest, in_quarantine=in_quarantine) is doubtful


def test_a_baseline_does_not_follow_a_board_that_slows_down_a_little_each_time() -> None:
    ageing = [1e-3 * 1.001**number for number in range(200)]
    board = Board().measures(*STEADY, *ageing)
    assert board.in_quarantine
    slowest = max(board.good)
    assert slowest <= 1e-3 * (1 + 2 * LEAST_SPREAD)


def test_what_is_beyond_widens_nothing() -> None:
    board = Board().measures(*STEADY, *[2e-3, 1e-3] * 100)
    assert board.verdicts[BASE_RUNS:] == [False, True] * 100


@given(st.lists(SECONDS, min_size=FEWEST_RUNS, max_size=NEWEST_RUNS), SECONDS, SECONDS)
def test_only_ratios_count(times: list[float], seconds: float, factor: float) -> None:
    baseline = baseline_of(times, times)
    scaled = baseline_of([factor * one for one in times], [factor * one for one in times])
    assert baseline is not None
    assert scaled is not None
    assert scaled.spread == pytest.approx(baseline.spread)
    edge = baseline.seconds * (1 + baseline.spread)
    if abs(seconds / edge - 1) > 1e-9 and abs(seconds * edge / baseline.seconds**2 - 1) > 1e-9:
        assert scaled.holds(factor * seconds) is baseline.holds(seconds)


@given(st.lists(SECONDS, min_size=FEWEST_RUNS, max_size=BASE_RUNS))
def test_a_spread_has_its_limits_and_a_boards_own_middle_lies_within(times: list[float]) -> None:
    baseline = baseline_of(times, times)
    assert baseline is not None
    assert LEAST_SPREAD <= baseline.spread <= MOST_SPREAD
    assert baseline.holds(median(times))


@given(st.lists(st.floats(0.97e-3, 1.03e-3), max_size=60))
def test_a_board_that_stays_within_the_least_spread_is_never_in_quarantine(
    times: list[float],
) -> None:
    assert not Board().measures(*STEADY, *times).in_quarantine


@given(st.lists(st.booleans(), max_size=40))
def test_a_boards_standing_is_what_the_last_two_equal_measurements_say(
    good: Sequence[bool],
) -> None:
    board = Board().measures(*STEADY, *(1e-3 if one else 2e-3 for one in good))
    history = [True, *good]
    pairs = [first for first, second in pairwise(history) if first == second]
    assert board.in_quarantine is bool(pairs and not pairs[-1])


@pytest.mark.parametrize(
    ("seconds", "state", "says"),
    [
        (
            1.43e-3,
            {
                "name": "board-1",
                "temperature_c": 84.4,
                "frequency_khz": 1_200_000,
                "governor": "powersave",
                "throttled": ["under-voltage", "soft-temperature-limit"],
                "load": 0.25,
            },
            "its reference kernel took 1.43 ms, twice in a row 43% slower than its own 1 ms (give "
            "or take 5%); the board then: 84 °C, 1200 MHz, governor powersave, throttled: "
            "under-voltage, soft-temperature-limit, load 0.25",
        ),
        (
            0.8e-3,
            {"temperature_c": None, "throttled": []},
            "its reference kernel took 0.8 ms, twice in a row 20% faster than its own 1 ms (give "
            "or take 5%)",
        ),
        (
            2e-3,
            {"governor": "\x1b[2Jeco\n" + "o" * 100, "throttled": ["x"] * 100, "load": "high"},
            "its reference kernel took 2 ms, twice in a row 100% slower than its own 1 ms (give "
            f"or take 5%); the board then: governor ?[2Jeco?{'o' * 52}, throttled: "
            "x, x, x, x, x, x, x, x",
        ),
    ],
)
def test_a_quarantine_says_how_far_and_how_the_board_was(
    seconds: float, state: dict[str, object], says: str
) -> None:
    assert describe_drift(Baseline(1e-3, 0.05), seconds, state) == says
