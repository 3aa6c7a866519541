"""A session that ends while inputs are still on their way says nothing of a kernel.

The link is this machine's own, made slow by waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from trial_samples import matmul

from tunebook.tuner.trials.board_calls import TunebookServerCalls
from tunebook.tuner.trials.board_trials import BoardTrials
from tunebook.tuner.trials.trials import BoardSettings, MeasureJob, SessionOpened, SessionTooShort

SESSION_SECONDS = 2.0


@pytest.fixture
def slow_link(monkeypatch: pytest.MonkeyPatch) -> Callable[[float, str], None]:
    """Makes bringing inputs take so many seconds more, before they are sent or after."""
    place = TunebookServerCalls.place

    def make(seconds: float, when: str) -> None:
        def slowly(self: TunebookServerCalls, *arguments: Any) -> str:
            if when == "before":
                time.sleep(seconds)
            placed = place(self, *arguments)
            if when == "after":
                time.sleep(seconds)
            return placed

        monkeypatch.setattr(TunebookServerCalls, "place", slowly)

    return make


@pytest.fixture
def trials() -> Iterator[BoardTrials]:
    trials = BoardTrials()
    yield trials
    trials.give_board_back()


@pytest.mark.parametrize("when", ["before", "after"])
def test_inputs_that_use_up_a_session_ask_for_one_twice_as_long(
    slow_link: Callable[[float, str], None],
    trials: BoardTrials,
    board: Any,
    build: Callable[..., Any],
    when: str,
) -> None:
    """Before: the session has ended when they are sent. After: too little of it is left."""
    slow_link(SESSION_SECONDS + 1, when)
    program = matmul()
    library = build(program)
    settings = BoardSettings(
        board.address,
        num_cores=1,
        board_timeout=60,
        run_timeout=SESSION_SECONDS / 2,
        session_seconds=SESSION_SECONDS,
    )
    assert isinstance(trials.open(settings), SessionOpened)
    outcome = trials.carry_out(MeasureJob(settings, program, library))
    assert outcome == SessionTooShort(2 * SESSION_SECONDS)
