"""How many trials a worker has under way: as many as its boards eat while the next are made.

What is claimed is kept from other workers, so that no more is claimed than what is worked on, and
what hides the search and the build of the next rounds.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from tunebook.cache.store import ClaimedRound

# How far the last figure counts for a mean.
_RECENT = 0.2


def open_trials(rounds: Iterable[ClaimedRound]) -> int:
    """How many trials of rounds were not measured when they were claimed."""
    return sum(
        claimed.size - sum(slot.record_id is not None for slot in claimed.slots)
        for claimed in rounds
    )


class UnderWay:
    """Trials that were claimed together and are not measured yet."""

    def __init__(self, supply: Supply, trials: int) -> None:
        self._supply = supply
        self._trials = trials

    @property
    def trials(self) -> int:
        """How many are left."""
        return self._trials

    @trials.setter
    def trials(self, trials: int) -> None:
        self._trials = trials
        self._supply.note_change()


class Supply:
    """Says when more trials are to be claimed for boards; thread-safe.

    `boards` is how many boards there are now, `seconds_on_board` what a trial takes one of them
    (None: not known yet), `processes` how many build at once, `batch` how many trials are made
    together.
    """

    def __init__(
        self,
        *,
        processes: int,
        batch: int,
        boards: Callable[[], int],
        seconds_on_board: Callable[[], float | None],
    ) -> None:
        self._processes = processes
        self._batch = batch
        self._boards = boards
        self._seconds_on_board = seconds_on_board
        # Held from asking for `room` until what was claimed is under way.
        self.claiming = threading.Lock()
        self._changed = threading.Condition()
        self._under_way: set[UnderWay] = set()
        self._making: float | None = None

    @property
    def trials(self) -> int:
        """How many are under way."""
        with self._changed:
            return sum(one.trials for one in self._under_way)

    @property
    def room(self) -> int:
        """How many trials more are wanted now; none where there are enough."""
        trials = self.trials
        if trials == 0:
            return self._batch
        return min(self._batch, max(0, self.wanted() - trials))

    def wanted(self) -> int:
        """How many trials are to be under way when the next are claimed: one for each board, and
        what the boards measure until the next are built."""
        boards = self._boards()
        seconds, making = self._seconds_on_board(), self._making
        if not seconds or making is None:
            return boards + self._batch
        # Boards never eat more than is made for them in the long run.
        rate = min(boards / seconds, 1 / making)
        return boards + math.ceil(rate * making * self._batch)

    @contextmanager
    def under_way(self, trials: int) -> Iterator[UnderWay]:
        """Counts so many trials that were claimed, until the block ends."""
        one = UnderWay(self, trials)
        with self._changed:
            self._under_way.add(one)
        try:
            yield one
        finally:
            with self._changed:
                self._under_way.discard(one)
            self.note_change()

    def made(self, trials: int, search_seconds: float, build_seconds: float) -> None:
        """Notes what trials took until they could be measured: the search, and the builds of one
        process after the other."""
        if trials == 0:
            return
        each = (search_seconds + build_seconds / self._processes) / trials
        with self._changed:
            before = each if self._making is None else self._making
            self._making = before + _RECENT * (each - before)

    def note_change(self) -> None:
        """Wakes those that wait."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Until a trial was measured, or so many seconds have passed."""
        with self._changed:
            self._changed.wait(seconds)
