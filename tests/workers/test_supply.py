"""How much a worker claims for its boards, and how the time is shared out among what it claimed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunebook.workers.rounds.shared_time import SharedTime
from tunebook.workers.rounds.supply import Supply

BATCH = 16
PROCESSES = 2


def supply(boards: int, seconds_on_board: float | None = None) -> Supply:
    return Supply(
        processes=PROCESSES,
        batch=BATCH,
        boards=lambda: boards,
        seconds_on_board=lambda: seconds_on_board,
    )


class TestSupply:
    def test_a_worker_without_work_claims_a_batch(self) -> None:
        assert supply(boards=1).room == BATCH

    def test_before_anything_was_measured_the_next_batch_is_made_meanwhile(self) -> None:
        one = supply(boards=4)
        with one.under_way(BATCH):
            assert one.room == 4
        with one.under_way(BATCH + 4):
            assert one.room == 0

    @pytest.mark.parametrize(
        ("boards", "on_board", "to_make", "wanted"),
        [
            # One for each board, and what the boards eat in the time of making a batch.
            (1, 10.0, 0.25, 1 + 1),
            (4, 1.0, 0.1, 4 + 7),
            (4, 1.0, 0.25, 4 + 16),
            # Faster boards eat no more than is made.
            (8, 0.1, 0.25, 8 + 16),
            (1, 3600.0, 0.25, 1 + 1),
        ],
    )
    def test_as_much_is_under_way_as_boards_eat_while_the_next_is_made(
        self, boards: int, on_board: float, to_make: float, wanted: int
    ) -> None:
        one = supply(boards, on_board)
        one.made(BATCH, search_seconds=BATCH * to_make / 2, build_seconds=BATCH * to_make)
        assert one.wanted() == wanted

    @given(st.integers(1, 64), st.floats(1e-3, 1e4), st.floats(1e-3, 1e3), st.integers(1, 1000))
    def test_never_is_more_claimed_than_a_batch_beyond_one_for_each_board_and_a_batch(
        self, boards: int, on_board: float, to_make: float, under_way: int
    ) -> None:
        one = supply(boards, on_board)
        one.made(1, to_make, 0.0)
        with one.under_way(under_way):
            assert one.room + under_way <= max(under_way, boards + BATCH + 1)

    def test_what_was_measured_makes_room(self) -> None:
        one = supply(boards=1, seconds_on_board=1e6)
        one.made(BATCH, 1.0, 1.0)
        with one.under_way(BATCH) as trials:
            assert one.room == 0
            trials.trials = 1
            assert one.room == 1
        assert one.trials == 0


class TestSharedTime:
    def test_those_that_work_at_the_same_time_share_it(self) -> None:
        now = [0.0]
        time = SharedTime(lambda: now[0])
        with time.working() as first:
            now[0] = 10.0
            with time.working() as second:
                now[0] = 16.0
                assert (first(), second()) == (13.0, 3.0)
            now[0] = 17.0
            assert (first(), second()) == (14.0, 4.0)

    @given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 100)), max_size=30))
    def test_the_shares_are_the_time_in_which_anything_worked(
        self, steps: list[tuple[int, float]]
    ) -> None:
        """Each step begins or ends one of four that may work, and some time passes."""
        now, worked, shares = [0.0], 0.0, 0.0
        time = SharedTime(lambda: now[0])
        working: dict[int, tuple[ExitStack, Callable[[], float]]] = {}
        for number, seconds in steps:
            if number in working:
                stack, told = working.pop(number)
                shares += told()
                stack.close()
            else:
                stack = ExitStack()
                working[number] = stack, stack.enter_context(time.working())
            worked += seconds if working else 0.0
            now[0] += seconds
        for stack, told in working.values():
            shares += told()
            stack.close()
        assert shares == pytest.approx(worked)
