"""Boards that fail are left alone, on a clock that the test moves."""

from __future__ import annotations

import pytest

from tunebook.tuner.trials.boards_aside import BoardsAside

BOARD = "rack-1"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def aside(clock: Clock) -> BoardsAside:
    return BoardsAside(clock)


def test_a_board_that_fails_once_is_used_again(aside: BoardsAside) -> None:
    aside.failed(BOARD)
    assert BOARD not in aside


def test_one_that_fails_twice_in_a_row_is_set_aside_for_a_while(
    aside: BoardsAside, clock: Clock
) -> None:
    aside.failed(BOARD)
    seconds = aside.failed(BOARD)
    assert BOARD in aside
    clock.now += seconds
    assert BOARD not in aside


def test_a_trial_in_between_makes_good_for_a_failure(aside: BoardsAside) -> None:
    aside.failed(BOARD)
    aside.measured(BOARD)
    aside.failed(BOARD)
    assert BOARD not in aside


def test_each_further_failure_takes_longer_up_to_a_limit(aside: BoardsAside) -> None:
    waits = [aside.failed(BOARD) for _ in range(12)]
    assert waits[0] == 0
    assert waits[1:4] == [waits[1], 2 * waits[1], 4 * waits[1]]
    assert waits[-1] == waits[-2] == max(waits)


def test_a_board_that_was_refused_is_asked_for_again_soon(aside: BoardsAside, clock: Clock) -> None:
    aside.refused(BOARD)
    assert BOARD in aside
    clock.now += 60
    assert BOARD not in aside


def test_boards_are_told_apart(aside: BoardsAside) -> None:
    aside.refused(BOARD)
    assert "rack-2" not in aside
