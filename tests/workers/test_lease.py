"""What is held is known to be held, also by a process that stood still in the meantime.

The store is a stand-in here: whether another has taken a round over is its contract.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tunebook.cache.errors import DatabaseError, LeaseLostError
from tunebook.workers.rounds.lease import Lease

STOOD_STILL = 60.0


class Holding:
    """A lease, the clock of who has it, and what becomes of its next beats."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.beats = 0
        self.answer: Exception | None = None
        self.lease = Lease("round 1", self._beat, monotonic=lambda: self.now)

    def _beat(self) -> None:
        self.beats += 1
        if self.answer is not None:
            raise self.answer


@pytest.fixture
def holding() -> Holding:
    return Holding()


def test_a_lease_is_held_without_asking_while_it_is_kept(holding: Holding) -> None:
    assert not holding.lease.lost
    assert holding.beats == 0


def test_who_stood_still_knows_at_once_that_another_has_it(holding: Holding) -> None:
    holding.now += STOOD_STILL
    holding.answer = LeaseLostError("another has it")
    assert holding.lease.lost
    holding.answer = None
    assert holding.lease.lost
    assert holding.beats == 1


def test_who_stood_still_and_lost_nothing_goes_on(holding: Holding) -> None:
    holding.now += STOOD_STILL
    assert not holding.lease.lost
    assert not holding.lease.lost
    assert holding.beats == 1


def test_while_the_store_is_away_nothing_is_known_to_be_lost_and_it_is_asked_now_and_then(
    holding: Holding,
) -> None:
    holding.answer = DatabaseError("it is away")
    for _ in range(3):
        holding.now += STOOD_STILL
        assert not holding.lease.lost
        assert not holding.lease.lost
    assert holding.beats == 3


def test_a_lease_that_is_held_beats_by_itself(
    holding: Holding, eventually: Callable[..., None]
) -> None:
    with holding.lease:
        eventually(lambda: holding.beats > 0, "it beats")
