"""Trials that wait for a board, and which of them a board gets."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from tunebook.cache.records import ErrorClass, Measurement
from tunebook.cache.work import BoardPeak
from tunebook.tuner.board_features import missing_features
from tunebook.tuner.trials.measuring import Measurer
from tunebook.tuner.trials.trials import OpenedBoard, VerificationResult

# With which so many boards were lost one after the other, of that a trial is the cause.
_MOST_LOSSES = 3


@dataclass(frozen=True)
class TrialSetting:
    """What a trial wants of its board: threads, CPU features by LLVM's names, and the peak to
    believe."""

    num_cores: int
    features: frozenset[str]
    peak: BoardPeak | None


@dataclass(eq=False)
class WaitingTrial:
    """A trial in the queue since a moment of the monotonic clock. `carry_out` is called with a
    board; `lost_on` are the boards that were lost with it."""

    setting: TrialSetting
    carry_out: Callable[[Measurer], Any]
    wanted: Callable[[], bool]
    since: float
    future: Future[Any] = field(default_factory=Future)
    lost_on: list[str] = field(default_factory=list)
    _lost_seconds: float = 0.0

    def lost(self, board: str, outcome: Measurement | VerificationResult) -> bool:
        """Notes that a board was lost with it; whether it is to be repeated."""
        self.lost_on.append(board)
        if isinstance(outcome, Measurement):
            self._lost_seconds += outcome.board_seconds
        return len(self.lost_on) < _MOST_LOSSES

    def done(self, outcome: Any) -> None:
        """Gives its outcome to whoever waits; a measurement's board seconds are those of all
        boards."""
        if isinstance(outcome, Measurement) and self.lost_on:
            own = 0.0 if is_lost(outcome) else outcome.board_seconds
            outcome = replace(outcome, board_seconds=self._lost_seconds + own)
        with suppress(InvalidStateError):
            self.future.set_result(outcome)

    def begin(self) -> bool:
        """Whether it is still wanted, now that a board is there for it; nobody can cancel it from
        now on."""
        if self.future.cancelled():
            return False
        if not self.wanted():
            if not self.future.cancel():  # it was begun on a board that was lost
                self.failed(CancelledError())
            return False
        return self.future.running() or self.future.set_running_or_notify_cancel()

    def failed(self, error: BaseException) -> None:
        """Gives what was raised to whoever waits."""
        with suppress(InvalidStateError):
            self.future.set_exception(error)


def is_lost(outcome: object) -> bool:
    """Whether it says nothing but that a board was lost."""
    return (
        isinstance(outcome, Measurement | VerificationResult)
        and outcome.error is ErrorClass.BOARD_LOST
    )


class TrialQueue:
    """Trials in the order in which boards get them; not thread-safe."""

    def __init__(self) -> None:
        self._trials: deque[WaitingTrial] = deque()

    def __len__(self) -> int:
        return len(self._trials)

    def add(self, trial: WaitingTrial, *, first: bool) -> None:
        """Queues a trial, before all others or behind them."""
        if first:
            self._trials.appendleft(trial)
        else:
            self._trials.append(trial)

    @property
    def first(self) -> WaitingTrial | None:
        return self._trials[0] if self._trials else None

    def take(self, board: OpenedBoard, held: Sequence[OpenedBoard]) -> WaitingTrial | None:
        """The next trial for a board, of the `held` ones. What is not wanted any more is dropped;
        a trial with which a board was lost is left to another one, if one is held."""
        for trial in tuple(self._trials):
            if not _runs(trial, board) or (
                board.name in trial.lost_on
                and any(one.name not in trial.lost_on and _runs(trial, one) for one in held)
            ):
                continue
            self._trials.remove(trial)
            if trial.begin():
                return trial
        return None

    def fail(self, error: BaseException, since: float) -> None:
        """Ends those that have waited since a moment, or for longer."""
        for trial in [one for one in self._trials if one.since <= since]:
            self._trials.remove(trial)
            trial.failed(error)

    def misfit(self, board: OpenedBoard) -> str | None:
        """Why a board can run none of them; None where it can, or there are none."""
        lacks = [missing_features(one.setting.features, board.features) for one in self._trials]
        if not lacks or () in lacks:
            return None
        return f"its CPU lacks {', '.join(lacks[0])}"

    def cancel(self) -> None:
        """Drops all."""
        while self._trials:
            trial = self._trials.popleft()
            if not trial.future.cancel():
                trial.failed(CancelledError())


def _runs(trial: WaitingTrial, board: OpenedBoard) -> bool:
    return not missing_features(trial.setting.features, board.features)
