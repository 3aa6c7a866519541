"""All boards of a class that are free, up to a limit: a trial goes to whichever is idle first."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from tunebook.cache.errors import BoardError, TunebookError
from tunebook.cache.records import Measurement
from tunebook.tuner.trials.board_holder import BoardRefusedError
from tunebook.tuner.trials.board_seats import Seat, Seats, SeatState
from tunebook.tuner.trials.board_tracker import BoardsThere
from tunebook.tuner.trials.boards_aside import BoardsAside
from tunebook.tuner.trials.measuring import BoardCheck, Measurer
from tunebook.tuner.trials.tracker_look import TrackerLook
from tunebook.tuner.trials.trial_queue import TrialQueue, TrialSetting, WaitingTrial, is_lost
from tunebook.tuner.trials.trials import BoardAddress, OpenedBoard

_log = logging.getLogger(__name__)

T = TypeVar("T")

# How often the tracker is asked while a trial waits for another board.
_LOOK_SECONDS = 0.5
# A board that has nothing to do for so long is given back.
_IDLE_SECONDS = 2.0
# Between two attempts to get a board where the first failed.
_PAUSE_SECONDS = 1.0
_JOIN_SECONDS = 5.0
# How far the last trial counts for the mean.
_RECENT = 0.1


class BoardPool:
    """Measures on as many boards of a class as the tracker has free, `most_boards` at most (one
    where the board is this machine); thread-safe.

    A trial is given to a board that is there, so that none waits for one while another is idle. A
    board without work is given back after some seconds. A trial with which a board was lost is
    repeated on another; a board that was lost twice in a row is set aside for a while, unless there
    is no other. Trials end with BoardError when no board can be had for `board_timeout` seconds.
    `check` is asked about each board on which a session is opened, in several threads.
    """

    def __init__(
        self,
        address: BoardAddress,
        *,
        most_boards: int = 1,
        board_timeout: float = 60.0,
        run_timeout: float = 10.0,
        check: BoardCheck | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        # Which features a board must have depends on the trial.
        self.address = replace(address, features=frozenset())
        self._board_timeout = board_timeout
        self._run_timeout = run_timeout
        self._check = check
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._queue = TrialQueue()
        self._seats = Seats(1 if address.shares_host else most_boards)
        self._aside = BoardsAside(monotonic)
        self._closed = False
        self._look = TrackerLook(self.address, _LOOK_SECONDS, monotonic)
        self._seconds: float | None = None

    def submit(
        self,
        setting: TrialSetting,
        carry_out: Callable[[Measurer], T],
        *,
        wanted: Callable[[], bool],
        urgent: bool,
    ) -> Future[T]:
        """Queues a trial, before all others where it is urgent (see TargetBoards.submit). Raises
        TunebookError once the pool is closed."""
        trial = WaitingTrial(setting, carry_out, wanted, self._monotonic())
        with self._changed:
            if self._closed:
                raise TunebookError("the measuring is closed; open it again")
            self._enqueue(trial, first=urgent)
            for number, seat in enumerate(self._seats.all):
                if seat.thread is None:
                    seat.thread = threading.Thread(
                        target=self._serve, args=(seat,), name=f"board-{number}", daemon=True
                    )
                    seat.thread.start()
        return trial.future

    def start(self) -> None:
        """Starts the process for the first board already, without waiting for it or for a board;
        what keeps it from that the first trial says."""
        with suppress(OSError):
            self._seats.all[0].holder.start()

    @property
    def held(self) -> int:
        """How many boards are held, at least one."""
        with self._changed:
            return max(1, len(self._seats.held))

    @property
    def boards(self) -> int:
        """How many boards can be used now: those that are held, and those that are free."""
        if len(self._seats.all) == 1:
            return 1
        there = self._look.there
        with self._changed:
            held = len(self._seats.held)
        return max(1, min(len(self._seats.all), held + there.free))

    @property
    def seconds_per_trial(self) -> float | None:
        """What trials took a board of late, on average; None before the first."""
        return self._seconds

    def give_boards_back(self) -> None:
        """Lets others have the boards that have nothing to do."""
        with self._changed:
            for seat in self._seats.all:
                if seat.state is SeatState.IDLE:
                    seat.holder.give_board_back()
            self._changed.notify_all()

    def end(self) -> None:
        """Ends what is measured (its outcome is `board-lost`), and cancels what waits. Waits for
        nobody."""
        with self._changed:
            self._closed = True
            self._queue.cancel()
            self._changed.notify_all()
        for seat in self._seats.all:
            seat.holder.end()

    def close(self) -> None:
        """Gives all boards back, and ends everything. May be called twice."""
        self.end()
        for seat in self._seats.all:
            seat.holder.close()
        for seat in self._seats.all:
            if seat.thread is not None:
                seat.thread.join(_JOIN_SECONDS)

    def __enter__(self) -> BoardPool:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    # --- a seat's thread -----------------------------------------------------------------------

    def _serve(self, seat: Seat) -> None:
        while self._wait_until_needed(seat):
            if self._get_board(seat):
                self._use_board(seat)

    def _wait_until_needed(self, seat: Seat) -> bool:
        """Until this seat is to ask for a board; False once the pool is closed."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._is_short_of_boards())
                if self._closed:
                    return False
                if self._seats.are_empty:
                    seat.state = SeatState.ASKING
                    return True
            there = self._look.there
            with self._changed:
                if self._closed:
                    return False
                if self._is_short_of_boards() and self._seats.may_ask(there, self._aside):
                    seat.state = SeatState.ASKING
                    return True
                self._changed.wait(_LOOK_SECONDS)

    def _get_board(self, seat: Seat) -> bool:
        with self._changed:
            first = self._queue.first
        if first is None:
            self._leave(seat)
            return False
        try:
            board = self._measurer(seat, first.setting).hold_board()
            self._refuse_misfit(board)
        except BoardError as error:
            self._has_no_board(seat, error)
            return False
        except Exception as error:
            # This machine cannot measure, or the check of the board failed.
            self._cannot_measure(seat, error)
            return False
        there = self._look.there
        with self._changed:
            if board.name not in self._aside or not self._others_than(board.name, there):
                seat.state = SeatState.IDLE
                return True
        # The tracker offers boards in turn: the next time it is another.
        self._leave(seat)
        self._pause()
        return False

    def _refuse_misfit(self, board: OpenedBoard) -> None:
        with self._changed:
            reason = self._queue.misfit(board)
        if reason is not None:
            raise BoardRefusedError(board, reason)

    def _use_board(self, seat: Seat) -> None:
        while (trial := self._next(seat)) is not None:
            self._carry_out(seat, trial)
        self._leave(seat)

    def _leave(self, seat: Seat) -> None:
        seat.holder.give_board_back()
        with self._changed:
            seat.state = SeatState.AWAY
            self._changed.notify_all()

    def _next(self, seat: Seat) -> WaitingTrial | None:
        """The next trial for a seat's board; None where the board is to be given back."""
        idle = None if self.address.shares_host else self._monotonic() + _IDLE_SECONDS
        with self._changed:
            seat.state = SeatState.IDLE
            while not self._closed and seat.holder.holds_for(self._run_timeout):
                trial = self._take(seat)
                if trial is not None:
                    seat.state = SeatState.BUSY
                    return trial
                left = None if idle is None else idle - self._monotonic()
                if left is not None and left <= 0:
                    break
                self._changed.wait(left)
        return None

    def _carry_out(self, seat: Seat, trial: WaitingTrial) -> None:
        board = seat.holder.board
        name = board.name if board is not None else ""
        began = self._monotonic()
        try:
            outcome = trial.carry_out(self._measurer(seat, trial.setting))
        except BoardError as error:
            # Its session had to be opened anew, and no board was there for that.
            _log.warning("a trial waits for another board: %s", error, extra=self._told(name))
            self._repeat(trial)
            return
        except Exception as error:
            trial.failed(error)
            return
        if is_lost(outcome) and not self._closed:
            self._note_lost(name)
            if trial.lost(name, outcome):
                self._repeat(trial)
                return
        elif isinstance(outcome, Measurement):
            self._note_measured(name, self._monotonic() - began)
        trial.done(outcome)

    def _repeat(self, trial: WaitingTrial) -> None:
        with self._changed:
            if self._closed:
                trial.failed(CancelledError())
            else:
                self._enqueue(trial, first=True)

    def _note_measured(self, board: str, seconds: float) -> None:
        with self._changed:
            self._aside.measured(board)
            before = seconds if self._seconds is None else self._seconds
            self._seconds = before + _RECENT * (seconds - before)

    def _note_lost(self, board: str) -> None:
        with self._changed:
            seconds = self._aside.failed(board)
        more = f", and is set aside for {seconds:g} s" if seconds else ""
        _log.warning("a board was lost with a trial%s", more, extra=self._told(board))

    def _has_no_board(self, seat: Seat, error: BoardError) -> None:
        refused = error.board if isinstance(error, BoardRefusedError) else None
        if refused is not None:
            _log.warning("%s", error, extra=self._told(refused.name))
            seat.holder.give_board_back()
        with self._changed:
            seat.state = SeatState.AWAY
            # One that was refused may be followed by another that is not.
            waited = 0.0
            if refused is not None:
                self._aside.refused(refused.name)
                waited = self._board_timeout
            if not self._seats.held:
                self._queue.fail(error, since=self._monotonic() - waited)
        self._pause()

    def _cannot_measure(self, seat: Seat, error: Exception) -> None:
        with self._changed:
            self._queue.fail(error, since=self._monotonic())
        self._leave(seat)
        self._pause()

    def _pause(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed, _PAUSE_SECONDS)

    def _measurer(self, seat: Seat, setting: TrialSetting) -> Measurer:
        return Measurer(
            self.address,
            num_cores=setting.num_cores,
            board_timeout=self._board_timeout,
            run_timeout=self._run_timeout,
            peak=setting.peak,
            check=self._check,
            holder=seat.holder,
        )

    def _told(self, board: str) -> dict[str, object]:
        return {"board": board, "board_class": self.address.board_class}

    # --- with the lock -------------------------------------------------------------------------

    def _enqueue(self, trial: WaitingTrial, *, first: bool) -> None:
        self._queue.add(trial, first=first)
        self._changed.notify_all()

    def _take(self, seat: Seat) -> WaitingTrial | None:
        assert seat.board is not None, "only a seat with a board takes a trial"
        return self._queue.take(seat.board, self._seats.held)

    def _is_short_of_boards(self) -> bool:
        return len(self._queue) > self._seats.coming

    def _others_than(self, name: str, there: BoardsThere) -> bool:
        return any(one.label != name and one.label not in self._aside for one in there.servers)
