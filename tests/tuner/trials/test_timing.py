"""A kernel is repeated until its times agree or the trial has cost enough.

The kernels here are fakes with a script of times: no real one is as slow, or as steady, on demand.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import pytest

from tunebook.tuner.trials.timing import spread, time_kernel


class ScriptedKernel:
    """Takes the given seconds a call, in turn; counts what it is asked for."""

    def __init__(self, *seconds: float) -> None:
        self._seconds: Iterable[float] = itertools.cycle(seconds)
        self.asked: list[tuple[int, int]] = []

    def __call__(self, number: int, repeat: int) -> Sequence[float]:
        self.asked.append((number, repeat))
        return list(itertools.islice(self._seconds, repeat))

    @property
    def runs(self) -> int:
        return sum(1 + number * repeat for number, repeat in self.asked)

    @property
    def repeats(self) -> int:
        return sum(repeat for _, repeat in self.asked)


def test_a_steady_kernel_is_repeated_three_times() -> None:
    kernel = ScriptedKernel(100e-6)
    assert time_kernel(kernel) == (100e-6, 100e-6, 100e-6)


def test_a_repeat_of_a_fast_kernel_is_the_mean_of_many_runs() -> None:
    kernel = ScriptedKernel(100e-6)
    time_kernel(kernel)
    assert kernel.asked == [(1, 1), (50, 3)]


def test_an_unsteady_kernel_is_repeated_more_often_but_not_for_ever() -> None:
    kernel = ScriptedKernel(100e-6, 200e-6)
    times = time_kernel(kernel)
    assert 3 < len(times) <= 9


@pytest.mark.parametrize("seconds", [1e-6, 100e-6, 0.004, 0.006, 0.015, 0.2])
def test_a_board_is_called_twice_at_most_if_times_agree(seconds: float) -> None:
    kernel = ScriptedKernel(seconds)
    time_kernel(kernel)
    assert len(kernel.asked) <= 2


@pytest.mark.parametrize("seconds", [1e-6, 100e-6, 0.004, 0.006, 0.015, 0.2])
def test_a_board_is_called_three_times_at_most_if_they_do_not(seconds: float) -> None:
    kernel = ScriptedKernel(seconds, 2 * seconds, 3 * seconds)
    time_kernel(kernel)
    assert len(kernel.asked) <= 3


def test_a_trial_of_a_fast_kernel_costs_less_than_a_tenth_of_a_second() -> None:
    kernel = ScriptedKernel(100e-6, 200e-6)
    time_kernel(kernel)
    assert kernel.runs * 200e-6 < 0.1


def test_a_slow_kernel_is_run_as_few_times_as_it_needs() -> None:
    kernel = ScriptedKernel(0.4)
    assert time_kernel(kernel) == (0.4,)
    assert kernel.runs == 2


@pytest.mark.parametrize("seconds", [0.01, 0.05, 0.1, 0.15, 0.3, 3.0])
def test_no_kernel_is_timed_for_longer_than_half_a_second_if_two_runs_are_shorter(
    seconds: float,
) -> None:
    kernel = ScriptedKernel(seconds)
    time_kernel(kernel)
    assert kernel.runs * seconds <= max(0.5, 2 * seconds)


def test_a_kernel_much_slower_than_the_best_is_given_up_after_one_repeat() -> None:
    kernel = ScriptedKernel(0.02)
    assert time_kernel(kernel, best_seconds=0.003) == (0.02,)
    assert kernel.asked == [(1, 1)]


def test_a_long_kernel_not_so_much_slower_than_the_best_is_run_twice() -> None:
    assert len(time_kernel(ScriptedKernel(0.02), best_seconds=0.005)) == 2


def test_an_unsteady_kernel_of_some_length_is_repeated_as_long_as_there_is_time() -> None:
    kernel = ScriptedKernel(0.006, 0.009)
    time_kernel(kernel)
    assert kernel.asked == [(1, 1), (1, 2), (1, 4)]


def test_a_kernel_far_from_the_best_is_repeated_once() -> None:
    kernel = ScriptedKernel(160e-6, 200e-6)
    assert time_kernel(kernel, best_seconds=100e-6) == (200e-6,)
    assert kernel.asked == [(1, 1), (32, 1)]


def test_one_whose_first_run_was_disturbed_is_repeated_like_any_other() -> None:
    kernel = ScriptedKernel(200e-6, 100e-6, 101e-6, 102e-6)
    assert time_kernel(kernel, best_seconds=100e-6) == (100e-6, 101e-6, 102e-6)


def test_and_more_often_where_it_is_unsteady() -> None:
    kernel = ScriptedKernel(200e-6, 100e-6, 130e-6, 160e-6)
    assert len(time_kernel(kernel, best_seconds=100e-6)) > 3


@pytest.mark.parametrize(("fastest", "more"), [(90e-6, True), (140e-6, True), (160e-6, False)])
def test_an_unsteady_kernel_is_repeated_more_often_only_where_it_may_be_the_best(
    fastest: float, more: bool
) -> None:
    kernel = ScriptedKernel(fastest, 2 * fastest, 3 * fastest, fastest)
    times = time_kernel(kernel, best_seconds=100e-6)
    assert (len(times) > 3) == more


def test_a_clock_that_stands_still_ends_the_trial() -> None:
    kernel = ScriptedKernel(0.0)
    assert max(time_kernel(kernel)) == 0.0
    assert kernel.runs < 100_000


def test_the_spread_is_a_share_of_the_median() -> None:
    assert spread([1.0, 1.1, 1.2]) == pytest.approx(0.2 / 1.1)
    assert math.isinf(spread([0.0, 0.0]))
